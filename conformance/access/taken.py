"""Rights that are taken away from somebody who uses them.

Of fetch sessions, by names and by ids of topics: what a session tells once one of its topics may
no longer be read, and once it may again.  Of members of groups and of transactions: what they are
told from then on.  Who was let in stays in: each request is looked at when it comes.
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
from kwire.conformance.access.asking import Response, told_of_each
from kwire.conformance.access.senders import GROUP, READER, TOPIC, TRANSACTIONAL_ID
from kwire.conformance.access.stage import Stage, rule
from kwire.conformance.wire.peer import Reply

KEPT_TOPIC, LOST_TOPIC = "kept", "lost"
_BY_NAME, _BY_ID = (7, 12), (13, 18)
"""Versions of Fetch that know sessions: the first and the last of those with names, with ids."""
_PARKED_MS: Final = 5_000
Told = Iterator[tuple[str, list[str]]]


def play(stage: Stage) -> Told:
    stage.topics(KEPT_TOPIC, LOST_TOPIC)
    stage.find_coordinators("members", "transaction")
    for version in (*_BY_NAME, *_BY_ID):
        for step, told in _Session(stage, version).play():
            yield f"fetch v{version}: {step}", told
    yield from _parked(stage)
    yield from _member(stage)
    yield from _member_of_kip_848(stage)
    yield from _transaction(stage)


class _Session:
    """A session of two topics, of which one is lost for a while."""

    def __init__(self, stage: Stage, version: int) -> None:
        self._stage = stage
        self._version = version
        self._id = self._epoch = 0
        self._names = {stage.topic_ids[name]: name for name in (KEPT_TOPIC, LOST_TOPIC)}

    def play(self) -> Told:
        kept, lost = (rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC))
        self._stage.give(kept, lost)
        yield "a session of both", self._fetch(KEPT_TOPIC, LOST_TOPIC)
        yield "again, from their ends", self._fetch(KEPT_TOPIC, LOST_TOPIC, offset=1_000_000)
        yield "from their beginnings", self._fetch(KEPT_TOPIC, LOST_TOPIC)
        self._stage.take(lost)
        yield "the right is gone", self._fetch()
        yield "and stays so", self._fetch()
        yield "asked of it again", self._fetch(LOST_TOPIC)
        self._stage.give(lost)
        yield "it is there again", self._fetch()
        self._stage.take(lost)
        yield "it is gone, and what it was for is forgotten", self._fetch(forgotten=LOST_TOPIC)
        yield "added without it", self._fetch(LOST_TOPIC)
        self._stage.take(kept)
        yield "all rights are gone", self._fetch()
        yield "a new session without any", self._first()

    def _first(self) -> list[str]:
        self._id = self._epoch = 0
        return self._fetch(KEPT_TOPIC, LOST_TOPIC)

    def _fetch(self, *names: str, offset: int = 0, forgotten: str = "") -> list[str]:
        ids = self._stage.topic_ids
        asked = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1000)
        request = FetchRequest(
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[FetchTopic(name, ids[name], [asked]) for name in names],
            forgotten_topics_data=(
                [ForgottenTopic(forgotten, ids[forgotten], [0])] if forgotten else []
            ),
        )
        outcome = self._stage.ask(READER, request, self._version)
        if isinstance(outcome, Reply):
            reply: Response = outcome.message
            self._id = reply.session_id
            self._epoch += 1
        return told_of_each(outcome, self._names)


def _parked(stage: Stage) -> Told:
    """A Fetch that waits for records while its sender's right goes gets those that come."""
    may_read = rule(READER, TOPIC, LOST_TOPIC, "READ")
    stage.give(may_read)
    asked = FetchPartition(0, fetch_offset=1, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=_PARKED_MS, min_bytes=1, topics=[FetchTopic(LOST_TOPIC, partitions=[asked])]
    )
    peer = stage.peer(READER)
    peer.send(1, 12, request.encode(12))
    stage.take(may_read)
    stage.write(LOST_TOPIC)
    yield "fetch v12 that waited meanwhile", told_of_each(peer.receive())


def _member(stage: Stage) -> Told:
    """A member of a group, whose right on the group goes, and on a topic."""
    group = rule(READER, GROUP, "members", "READ")
    topics = [rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.give(group, *topics)
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
    yield from _asked(stage, requests, "a member")
    stage.take(topics[1])
    yield from _asked(stage, requests[1:], "a member without a topic")
    stage.take(group)
    yield from _asked(stage, requests[1:], "a member without the group")
    stage.give(group)
    yield from _asked(stage, requests[1:], "a member with it again")
    stage.take(group, topics[0])


def _commit(generation: int, member: str) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(0, 0, committed_metadata="")
    topics = [
        OffsetCommitRequestTopic(name, partitions=[asked]) for name in (KEPT_TOPIC, LOST_TOPIC)
    ]
    return OffsetCommitRequest("members", generation, member, topics=topics)


def _member_of_kip_848(stage: Stage) -> Told:
    """A member that says its topics once, and one of them may no longer be seen."""
    group = rule(READER, GROUP, "consumers", "READ")
    topics = [rule(READER, TOPIC, name, "DESCRIBE") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.give(group, *topics)
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
    yield from _asked(stage, requests, "a member of KIP-848")
    stage.take(topics[1])
    yield from _asked(stage, requests, "a member of KIP-848 without a topic")
    stage.take(group)
    yield from _asked(stage, requests, "a member of KIP-848 without the group")
    stage.take(topics[0])


def _transaction(stage: Stage) -> Told:
    """A transaction, whose sender's rights go one by one."""
    name = "transaction"
    own = rule(READER, TRANSACTIONAL_ID, name, "WRITE")
    topic = rule(READER, TOPIC, KEPT_TOPIC, "WRITE")
    stage.give(own, topic)
    began = stage.coordinated(InitProducerIdRequest(name, 60_000), 4)
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
    yield from _asked(stage, requests[:1], "a transaction")
    stage.take(topic)
    yield from _asked(stage, requests[:2], "a transaction without its topic")
    stage.take(own)
    stage.give(topic)
    yield from _asked(stage, requests, "a transaction without its id")
    stage.give(own)
    yield from _asked(stage, requests, "a transaction with all rights again")
    stage.take(own, topic)


def _asked(stage: Stage, requests: list[tuple[str, Message, int]], who: str) -> Told:
    for name, message, version in requests:
        yield f"{name} v{version} of {who}", told_of_each(stage.ask(READER, message, version))
