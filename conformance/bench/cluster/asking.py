"""What the measurements ask of a cluster, on connections of their own: topics, leaders, replicas.

Each request has one version that both kinds of brokers serve, so that they get the same bytes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.primitives import Message
from kwire.conformance.bench.cluster.subjects import COUNT, Subject
from kwire.conformance.bench.frames import BrokerRefused
from kwire.conformance.wire.peer import Peer, Reply

PRODUCE_VERSION: Final = 11
"""The newest of Apache Kafka 3.9."""
VERSIONS: Final = {
    ProduceRequest: PRODUCE_VERSION,
    ListOffsetsRequest: 5,
    MetadataRequest: 9,
    CreateTopicsRequest: 5,
    AlterPartitionReassignmentsRequest: 0,
}
WAIT_S: Final = 300.0
"""For what has to come about: far more than it takes."""
POLL_S: Final = 0.01
TIMEOUT_MS: Final = 60_000
EARLIEST: Final = -2
NOBODY: Final = -1


class NoAnswer(RuntimeError):
    """The broker is gone, or closed the connection."""


class NotInTime(RuntimeError):
    """What was waited for did not come about."""


def until(is_so: Callable[[], bool], what: str, poll_s: float = POLL_S) -> None:
    """Ask again and again, also where nobody answers meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(NoAnswer):
            if is_so():
                return
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(poll_s)


class Asking:
    """A connection to each broker that was asked something, made anew where it is lost."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._peers: dict[int, Peer] = {}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def ask(self, broker_id: int, request: Message) -> Any:  # noqa: ANN401 - any response
        """Raises NoAnswer."""
        assert request.API_KEY is not None
        version = VERSIONS[type(request)]
        peer = self._peer(broker_id)
        peer.send(request.API_KEY, version, request.encode(version))
        outcome = peer.receive(TIMEOUT_MS / 1000)
        if isinstance(outcome, Reply):
            return outcome.message
        del self._peers[broker_id]
        raise NoAnswer(f"broker {broker_id}: {type(outcome).__name__}")

    def _peer(self, broker_id: int) -> Peer:
        if broker_id not in self._peers:
            try:
                self._peers[broker_id] = Peer(self._subject.address(broker_id))
            except OSError as error:
                raise NoAnswer(f"broker {broker_id}: {error}") from error
        return self._peers[broker_id]

    # -- what is known

    def metadata(self, broker_id: int, topics: Sequence[str] = ()) -> MetadataResponse:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.ask(broker_id, request)
        return answer

    def partitions(
        self, broker_id: int, topics: Sequence[str]
    ) -> dict[tuple[str, int], MetadataResponsePartition]:
        """All partitions of these topics that a broker knows, by topic and index."""
        return {
            (topic.name or "", each.partition_index): each
            for topic in self.metadata(broker_id, topics).topics
            for each in topic.partitions
        }

    def leader(self, broker_id: int, topic: str) -> int:
        """Of partition 0, by what this broker knows; NOBODY where it knows of none."""
        known = self.partitions(broker_id, [topic]).get((topic, 0))
        return NOBODY if known is None else known.leader_id

    def controller(self, among: Iterable[int]) -> int:
        """Of which these brokers know, all of them."""
        found: set[int] = set()

        def agreed() -> bool:
            found.clear()
            found.update(self.metadata(each).controller_id for each in among)
            return len(found) == 1 and found != {NOBODY}

        until(agreed, "one controller")
        return found.pop()

    def wait_until_members(self) -> None:
        ids = {*self._subject.brokers}
        until(
            lambda: all({b.node_id for b in self.metadata(i).brokers} == ids for i in ids),
            "all members",
        )

    def wait_until_in_sync(self, topics: Sequence[str], partitions: int, copies: int) -> None:
        """Until each broker says so of all of them, and that each is led."""

        def whole(broker_id: int) -> bool:
            known = self.partitions(broker_id, topics).values()
            return len(known) == partitions and all(
                len(each.isr_nodes) == copies and each.leader_id != NOBODY for each in known
            )

        until(lambda: all(map(whole, self._subject.brokers)), f"{copies} replicas in sync")

    # -- what is changed

    def create(self, topic: str, partitions: int) -> None:
        """With a replica on each broker; returns once all are in sync."""
        self._create(CreatableTopic(topic, partitions, COUNT))
        self.wait_until_in_sync([topic], partitions, COUNT)

    def create_on(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """With these replicas of each partition."""
        placed = [CreatableReplicaAssignment(at, [*on]) for at, on in replicas.items()]
        self._create(CreatableTopic(topic, -1, -1, placed))
        self.wait_until_in_sync([topic], len(replicas), len(replicas[0]))

    def create_many(self, topics: Sequence[str], partitions: int) -> None:
        """Of so many partitions each."""
        for topic in topics:
            self._create(CreatableTopic(topic, partitions, COUNT))
        self.wait_until_in_sync(topics, len(topics) * partitions, COUNT)

    def _create(self, topic: CreatableTopic) -> None:
        controller = self.controller(self._subject.brokers)
        reply = self.ask(controller, CreateTopicsRequest([topic], TIMEOUT_MS))
        if reply.topics[0].error_code:
            raise BrokerRefused(f"CreateTopics: {reply.topics[0]!r}")

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        moved = [ReassignablePartition(at, [*on]) for at, on in replicas.items()]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(topic, moved)]
        )
        reply = self.ask(self.controller(self._subject.brokers), request)
        if reply.error_code or any(p.error_code for t in reply.responses for p in t.partitions):
            raise BrokerRefused(f"AlterPartitionReassignments: {reply!r:.500}")

    # -- what is served

    def is_acknowledged(self, broker_id: int, topic: str, batch: bytes) -> bool:
        """Whether a batch for partition 0 is taken by all in sync."""
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        reply = self.ask(broker_id, request)
        return not reply.responses[0].partition_responses[0].error_code

    def are_served(self, broker_id: int, led: Iterable[tuple[str, int]]) -> bool:
        """Whether a broker answers for these partitions as their leader."""
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in led:
            by_topic.setdefault(topic, []).append(ListOffsetsPartition(index, -1, EARLIEST))
        wanted = [ListOffsetsTopic(topic, indexes) for topic, indexes in by_topic.items()]
        reply = self.ask(broker_id, ListOffsetsRequest(replica_id=-1, topics=wanted))
        return not any(p.error_code for topic in reply.topics for p in topic.partitions)
