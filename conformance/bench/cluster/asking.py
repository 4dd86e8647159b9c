"""Requests of the measurements to a cluster: topics, leaders, replicas.

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
from kwire.conformance.bench.cluster.subjects import COUNT, BenchSubject
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.wire.peer import ClientConnection, Reply

PRODUCE_VERSION: Final = 11
"""The newest version that Apache Kafka 3.9 serves."""
VERSIONS: Final = {
    ProduceRequest: PRODUCE_VERSION,
    ListOffsetsRequest: 5,
    MetadataRequest: 9,
    CreateTopicsRequest: 5,
    AlterPartitionReassignmentsRequest: 0,
}
WAIT_S: Final = 300.0
"""Limit for what must happen; it usually takes far less."""
POLL_S: Final = 0.01
TIMEOUT_MS: Final = 60_000
EARLIEST: Final = -2
NOBODY: Final = -1


class NoAnswer(RuntimeError):
    """The broker does not run, or closed the connection."""


class NotInTime(RuntimeError):
    """An expected state was not reached within WAIT_S."""


def until(is_so: Callable[[], bool], what: str, poll_s: float = POLL_S) -> None:
    """Wait until `is_so`; a broker that does not answer meanwhile is ignored. Raises NotInTime."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(NoAnswer):
            if is_so():
                return
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(poll_s)


class ClusterRequests:
    """Connections to the brokers, which are opened when needed and again when lost."""

    def __init__(self, subject: BenchSubject) -> None:
        self._subject = subject
        self._peers: dict[int, ClientConnection] = {}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def forget(self, broker_id: int) -> None:
        """Close the connection to a broker that will not be asked again."""
        if (peer := self._peers.pop(broker_id, None)) is not None:
            peer.close()

    def ask(self, broker_id: int, request: Message) -> Any:  # noqa: ANN401 - any response
        """Return the response of a broker. Raises NoAnswer."""
        assert request.API_KEY is not None
        version = VERSIONS[type(request)]
        peer = self._peer(broker_id)
        peer.send(request.API_KEY, version, request.encode(version))
        outcome = peer.receive(TIMEOUT_MS / 1000)
        if isinstance(outcome, Reply):
            return outcome.message
        del self._peers[broker_id]
        raise NoAnswer(f"broker {broker_id}: {type(outcome).__name__}")

    def _peer(self, broker_id: int) -> ClientConnection:
        """Return the connection to a broker, opened once; raise NoAnswer if it cannot be
        reached."""
        if broker_id not in self._peers:
            try:
                self._peers[broker_id] = ClientConnection(self._subject.address(broker_id))
            except OSError as error:
                raise NoAnswer(f"broker {broker_id}: {error}") from error
        return self._peers[broker_id]

    # Reading the metadata

    def metadata(self, broker_id: int, topics: Sequence[str] = ()) -> MetadataResponse:
        """Return the metadata of these topics, or of all, as this broker has them."""
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.ask(broker_id, request)
        return answer

    def partitions(
        self, broker_id: int, topics: Sequence[str]
    ) -> dict[tuple[str, int], MetadataResponsePartition]:
        """Return all partitions of these topics in a broker's metadata, by topic and index."""
        return {
            (topic.name or "", partition.partition_index): partition
            for topic in self.metadata(broker_id, topics).topics
            for partition in topic.partitions
        }

    def leader(self, broker_id: int, topic: str) -> int:
        """Return the leader of partition 0 in this broker's metadata, or NOBODY."""
        partition = self.partitions(broker_id, [topic]).get((topic, 0))
        return NOBODY if partition is None else partition.leader_id

    def controller(self, among: Iterable[int]) -> int:
        """Return the controller, once all these brokers report the same one.

        Return one of them if no broker is the controller: each forwards what only controllers do.
        """
        if not self._subject.has_controller:
            return min(among)
        controllers: set[int] = set()

        def agreed() -> bool:
            controllers.clear()
            controllers.update(self.metadata(broker_id).controller_id for broker_id in among)
            return len(controllers) == 1 and controllers != {NOBODY}

        until(agreed, "one controller")
        return controllers.pop()

    def wait_until_members(self) -> None:
        """Wait until each broker knows all brokers of the cluster."""
        ids = {*self._subject.brokers}
        until(
            lambda: all({b.node_id for b in self.metadata(i).brokers} == ids for i in ids),
            "all members",
        )

    def wait_until_in_sync(
        self, topics: Sequence[str], partitions: int, copies: int, poll_s: float = POLL_S
    ) -> None:
        """Wait until each broker reports all partitions with a leader and that many in-sync
        replicas."""

        def whole(broker_id: int) -> bool:
            """Return whether this broker reports all partitions with all copies in sync."""
            reported = self.partitions(broker_id, topics).values()
            return len(reported) == partitions and all(
                len(partition.isr_nodes) == copies and partition.leader_id != NOBODY
                for partition in reported
            )

        until(lambda: all(map(whole, self._subject.brokers)), f"{copies} replicas in sync", poll_s)

    # Changes

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with a replica on each broker, and wait until all are in sync."""
        self._create(CreatableTopic(topic, partitions, COUNT))
        self.wait_until_in_sync([topic], partitions, COUNT)

    def create_on(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Create a topic with these replicas of each partition, and wait until all are in sync."""
        placed = [CreatableReplicaAssignment(at, [*on]) for at, on in replicas.items()]
        self._create(CreatableTopic(topic, -1, -1, placed))
        self.wait_until_in_sync([topic], len(replicas), len(replicas[0]))

    def create_many(self, topics: Sequence[str], partitions: int) -> None:
        """Create topics with that many partitions each, and wait until all are in sync."""
        for topic in topics:
            self._create(CreatableTopic(topic, partitions, COUNT))
        self.wait_until_in_sync(topics, len(topics) * partitions, COUNT)

    def create_together(self, topics: Sequence[str]) -> None:
        """Create topics of one partition by one request; they may not be in sync on return."""
        self._create(*(CreatableTopic(topic, 1, COUNT) for topic in topics))

    def _create(self, *topics: CreatableTopic) -> None:
        """Create topics; raise RequestFailed if the controller refuses."""
        controller = self.controller(self._subject.brokers)
        reply = self.ask(controller, CreateTopicsRequest([*topics], TIMEOUT_MS))
        for created in reply.topics:
            if created.error_code:
                raise RequestFailed(f"CreateTopics: {created!r}")

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Reassign partitions to these brokers; raise RequestFailed if the controller refuses."""
        moved = [ReassignablePartition(at, [*on]) for at, on in replicas.items()]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(topic, moved)]
        )
        reply = self.ask(self.controller(self._subject.brokers), request)
        if reply.error_code or any(p.error_code for t in reply.responses for p in t.partitions):
            raise RequestFailed(f"AlterPartitionReassignments: {reply!r:.500}")

    # Checking what is served

    def is_acknowledged(self, broker_id: int, topic: str, batch: bytes) -> bool:
        """Return whether all in-sync replicas acknowledge a batch for partition 0."""
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        reply = self.ask(broker_id, request)
        return not reply.responses[0].partition_responses[0].error_code

    def are_served(self, broker_id: int, led: Iterable[tuple[str, int]]) -> bool:
        """Return whether a broker answers for these partitions as their leader."""
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in led:
            by_topic.setdefault(topic, []).append(ListOffsetsPartition(index, -1, EARLIEST))
        wanted = [ListOffsetsTopic(topic, indexes) for topic, indexes in by_topic.items()]
        reply = self.ask(broker_id, ListOffsetsRequest(replica_id=-1, topics=wanted))
        return not any(p.error_code for topic in reply.topics for p in topic.partitions)
