"""Rights that are revoked while their user works.

With fetch sessions, by topic names and by topic ids: what a session returns after the right to read
a topic is revoked, and after it is granted again. With members of groups and with transactions: how
later requests are answered. A member stays in its group: a broker checks rights only when a request
arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import Response, access_lines
from kwire.conformance.access.senders import GROUP, READER, TOPIC, TRANSACTIONAL_ID
from kwire.conformance.access.stage import AccessStage, rule
from kwire.conformance.wire.peer import Reply

KEPT_TOPIC, LOST_TOPIC = "kept", "lost"
_BY_NAME, _BY_ID = (7, 12), (13, 18)
"""Versions of Fetch with sessions: the first and last with topic names, and with topic ids."""
_PARKED_MS: Final = 5_000
SceneAnswers = Iterator[tuple[str, list[str]]]


def play(stage: AccessStage) -> SceneAnswers:
    """Yield all answers: fetch sessions, a waiting fetch, members of groups, a transaction."""
    stage.topics(KEPT_TOPIC, LOST_TOPIC)
    stage.find_coordinators("members", "transaction")
    for version in (*_BY_NAME, *_BY_ID):
        for step, told in _AccessSession(stage, version).play():
            yield f"fetch v{version}: {step}", told
    yield from _waiting_fetch(stage)
    yield from _member(stage)
    yield from _member_of_kip_848(stage)
    yield from _transaction(stage)


class _AccessSession:
    """A fetch session of two topics; the right on one of them is revoked for a while."""

    def __init__(self, stage: AccessStage, version: int) -> None:
        self._stage = stage
        self._version = version
        self._id = self._epoch = 0
        self._names = {stage.topic_ids[name]: name for name in (KEPT_TOPIC, LOST_TOPIC)}

    def play(self) -> SceneAnswers:
        """Yield the answers to the fetches of a session while rights on its topics come and go."""
        kept, lost = (rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC))
        self._stage.add_acls(kept, lost)
        yield "a session of both", self._fetch(KEPT_TOPIC, LOST_TOPIC)
        yield "again, from their ends", self._fetch(KEPT_TOPIC, LOST_TOPIC, offset=1_000_000)
        yield "from their beginnings", self._fetch(KEPT_TOPIC, LOST_TOPIC)
        self._stage.remove_acls(lost)
        yield "the right is gone", self._fetch()
        yield "and stays so", self._fetch()
        yield "asked of it again", self._fetch(LOST_TOPIC)
        self._stage.add_acls(lost)
        yield "it is there again", self._fetch()
        self._stage.remove_acls(lost)
        yield "it is gone, and what it was for is forgotten", self._fetch(forgotten=LOST_TOPIC)
        yield "added without it", self._fetch(LOST_TOPIC)
        self._stage.remove_acls(kept)
        yield "all rights are gone", self._fetch()
        yield "a new session without any", self._first()

    def _first(self) -> list[str]:
        self._id = self._epoch = 0
        return self._fetch(KEPT_TOPIC, LOST_TOPIC)

    def _fetch(self, *names: str, offset: int = 0, forgotten: str = "") -> list[str]:
        """Fetch these topics in the session and return the answer; without names it adds none.

        The session's id and next epoch are taken from the response.
        """
        ids = self._stage.topic_ids
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1000)
        request = FetchRequest(
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[FetchTopic(name, ids[name], [partition]) for name in names],
            forgotten_topics_data=(
                [ForgottenTopic(forgotten, ids[forgotten], [0])] if forgotten else []
            ),
        )
        outcome = self._stage.ask(READER, request, self._version)
        if isinstance(outcome, Reply):
            reply: Response = outcome.message
            self._id = reply.session_id
            self._epoch += 1
        return access_lines(outcome, self._names)


def _waiting_fetch(stage: AccessStage) -> SceneAnswers:
    """A Fetch that waits while the right is revoked still returns the records that arrive."""
    may_read = rule(READER, TOPIC, LOST_TOPIC, "READ")
    stage.add_acls(may_read)
    partition = FetchPartition(0, fetch_offset=1, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=_PARKED_MS, min_bytes=1, topics=[FetchTopic(LOST_TOPIC, partitions=[partition])]
    )
    peer = stage.peer(READER)
    peer.send(1, 12, request.encode(12))
    stage.remove_acls(may_read)
    stage.write(LOST_TOPIC)
    yield "fetch v12 that waited meanwhile", access_lines(peer.receive())


def _member(stage: AccessStage) -> SceneAnswers:
    """A member of a classic group loses its right on a topic, then on the group."""
    group = rule(READER, GROUP, "members", "READ")
    topics = [rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.add_acls(group, *topics)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest(
        "members", 60_000, 60_000, "", protocol_type="consumer", protocols=protocols
    )
    joined = stage.ask(READER, join, 3)
    assert isinstance(joined, Reply), joined
    answer: Response = joined.message
    generation, member = answer.generation_id, answer.member_id
    requests: list[tuple[str, Message, int]] = [
        ("sync_group", SyncGroupRequest("members", generation, member), 3),
        ("heartbeat", HeartbeatRequest("members", generation, member), 4),
        ("offset_commit", _commit(generation, member), 8),
    ]
    yield from _answers(stage, requests, "a member")
    stage.remove_acls(topics[1])
    yield from _answers(stage, requests[1:], "a member without a topic")
    stage.remove_acls(group)
    yield from _answers(stage, requests[1:], "a member without the group")
    stage.add_acls(group)
    yield from _answers(stage, requests[1:], "a member with it again")
    stage.remove_acls(group, topics[0])


def _commit(generation: int, member: str) -> OffsetCommitRequest:
    """Return a commit of both topics by this member of the group `members`."""
    partition = OffsetCommitRequestPartition(0, 0, committed_metadata="")
    topics = [
        OffsetCommitRequestTopic(name, partitions=[partition]) for name in (KEPT_TOPIC, LOST_TOPIC)
    ]
    return OffsetCommitRequest("members", generation, member, topics=topics)


def _member_of_kip_848(stage: AccessStage) -> SceneAnswers:
    """Yield the answers to a member that subscribes to two topics, and then loses the right to see
    one of them."""
    group = rule(READER, GROUP, "consumers", "READ")
    topics = [rule(READER, TOPIC, name, "DESCRIBE") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.add_acls(group, *topics)
    wanted = [KEPT_TOPIC, LOST_TOPIC]
    join = ConsumerGroupHeartbeatRequest(
        "consumers", "one", 0, rebalance_timeout_ms=60_000,
        subscribed_topic_names=wanted, topic_partitions=[],
    )  # fmt: skip
    joined = stage.ask(READER, join, 1)
    assert isinstance(joined, Reply), joined
    answer: Response = joined.message
    epoch = answer.member_epoch
    beat = ConsumerGroupHeartbeatRequest("consumers", "one", epoch)
    again = ConsumerGroupHeartbeatRequest("consumers", "one", epoch, subscribed_topic_names=wanted)
    requests: list[tuple[str, Message, int]] = [
        ("consumer_group_heartbeat", beat, 1),
        ("consumer_group_heartbeat with topics", again, 1),
    ]
    yield from _answers(stage, requests, "a member of KIP-848")
    stage.remove_acls(topics[1])
    yield from _answers(stage, requests, "a member of KIP-848 without a topic")
    stage.remove_acls(group)
    yield from _answers(stage, requests, "a member of KIP-848 without the group")
    stage.remove_acls(topics[0])


def _transaction(stage: AccessStage) -> SceneAnswers:
    """Yield the answers to a transaction whose producer loses its rights one by one."""
    name = "transaction"
    own = rule(READER, TRANSACTIONAL_ID, name, "WRITE")
    topic = rule(READER, TOPIC, KEPT_TOPIC, "WRITE")
    stage.add_acls(own, topic)
    began = stage.ask_coordinator(InitProducerIdRequest(name, 60_000), 4)
    producer_id, epoch = began.producer_id, began.producer_epoch
    add = AddPartitionsToTxnRequest(
        [], name, producer_id, epoch, [AddPartitionsToTxnTopic(KEPT_TOPIC, [0])]
    )
    batch = build(
        [Record(0, 0, None, b"x")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData(KEPT_TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    requests: list[tuple[str, Message, int]] = [
        ("add_partitions_to_txn", add, 3),
        ("produce", ProduceRequest(name, -1, 10_000, data), 9),
        ("end_txn", EndTxnRequest(name, producer_id, epoch, False), 3),
    ]
    yield from _answers(stage, requests[:1], "a transaction")
    stage.remove_acls(topic)
    yield from _answers(stage, requests[:2], "a transaction without its topic")
    stage.remove_acls(own)
    stage.add_acls(topic)
    yield from _answers(stage, requests, "a transaction without its id")
    stage.add_acls(own)
    yield from _answers(stage, requests, "a transaction with all rights again")
    stage.remove_acls(own, topic)


def _answers(
    stage: AccessStage, requests: list[tuple[str, Message, int]], who: str
) -> SceneAnswers:
    """Yield what the responses to these requests of the reader say about access."""
    for name, message, version in requests:
        yield f"{name} v{version} of {who}", access_lines(stage.ask(READER, message, version))
