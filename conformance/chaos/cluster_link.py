"""A link to a cluster, which sends each request to the leader, coordinator or controller.

Requests that only read a state go to all brokers. A leader that has been replaced while it is cut
off does not know it and reports an old state, as in Apache Kafka. So a response counts only if
every broker has answered and exactly one claims to be the leader: a new leader acknowledges nothing
before it knows that it leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import CreateTopicsRequest
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.codecs.messages.produce import ProduceRequest
from kwire.codecs.primitives import Message
from kwire.conformance.chaos.wire import REPLY_TIMEOUT_S, Link, Refused, check, topic_names
from kwire.conformance.wire.broker import GROUP
from kwire.conformance.wire.peer import Address

NOT_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
LOOK_PATIENCE_S = 2.0
"""Timeout of such a request: if one broker does not answer, the others' responses are useless."""


class ClusterLink(Link):
    """Like a Link to a single broker. All methods raise Refused."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        super().__init__(addresses[0])
        self._addresses = tuple(addresses)
        self._links = {address: Link(address) for address in addresses}
        self._metadata: MetadataResponse | None = None
        self._coordinators: dict[str, Address] = {}

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    def ask(self, request: Message) -> Any:  # noqa: ANN401 - any response
        """Return the response of the responsible broker; after a refusal it is looked up again."""
        try:
            address = self._address_for(request)
            return self._links[address].ask(request)
        except Refused:
            self.forget()
            raise

    def forget(self) -> None:
        """Forget the leaders and coordinators, which may have changed."""
        self._metadata = None
        self._coordinators.clear()

    def produce(
        self, topic: str, partition: int, value: bytes, now_ms: int, key: bytes | None = None
    ) -> int:
        """Produce one record and return its offset.

        After an error the leaders are looked up again, then Refused is raised.
        """
        try:
            return super().produce(topic, partition, value, now_ms, key)
        except Refused:
            self.forget()
            raise

    # The responsible broker

    def _address_for(self, request: Message) -> Address:
        """Return the broker for a request: leader, group coordinator, controller, or any broker."""
        match request:
            case ProduceRequest():
                data = request.topic_data[0]
                return self._leader(data.name, data.partition_data[0].index)
            case FetchRequest():
                topic = request.topics[0]
                return self._leader(topic.topic, topic.partitions[0].partition)
            case OffsetCommitRequest() | OffsetFetchRequest():
                return self._coordinator(request.group_id)
            case DescribeShareGroupOffsetsRequest():
                return self._coordinator(request.groups[0].group_id)
            case CreateTopicsRequest():
                return self._address_of(self._current_metadata().controller_id)
            case _:
                return self._any()

    def _any(self) -> Address:
        """Return a broker that answers."""
        if self._metadata is None:
            self._fetch_metadata()
        return self._answering

    def _current_metadata(self) -> MetadataResponse:
        return self._metadata or self._fetch_metadata()

    def _fetch_metadata(self) -> MetadataResponse:
        """Return the metadata of the first broker that answers; raise Refused if none does."""
        refused = Refused("CLOSED")
        for address in self._addresses:
            try:
                metadata: MetadataResponse = _ask_briefly(
                    self._links[address], MetadataRequest(topics=None)
                )
            except Refused as error:
                refused = error
                continue
            self._metadata, self._answering = metadata, address
            return metadata
        raise Refused("NO_BROKER") from refused

    def _address_of(self, node_id: int) -> Address:
        """Return the address of a broker; raise Refused if the metadata lack it."""
        for broker in self._current_metadata().brokers:
            if broker.node_id == node_id:
                return (broker.host, broker.port)
        raise Refused("BROKER_NOT_AVAILABLE")

    def _leader(self, topic: str, partition: int) -> Address:
        """Return the address of the partition's leader; raise Refused if the partition is
        unknown."""
        for topic_metadata in self._current_metadata().topics:
            if topic_metadata.name == topic:
                for partition_metadata in topic_metadata.partitions:
                    if partition_metadata.partition_index == partition:
                        return self._address_of(partition_metadata.leader_id)
        raise Refused("UNKNOWN_TOPIC_OR_PARTITION")

    def _coordinator(self, group: str) -> Address:
        """Return the address of the group's coordinator, which is looked up once."""
        if group not in self._coordinators:
            request = FindCoordinatorRequest(key=group, key_type=GROUP)
            coordinator = self._links[self._any()].ask(request)
            check(coordinator.error_code)
            self._coordinators[group] = (coordinator.host, coordinator.port)
        return self._coordinators[group]

    # Requests to all brokers

    def _all_answers(self, request: Message) -> list[Any]:
        """Return the responses of all brokers; raise Refused if one does not answer."""
        answers = []
        for link in self._links.values():
            try:
                answers.append(_ask_briefly(link, request))
            except Refused as refused:
                raise Refused("BROKER_NOT_AVAILABLE") from refused
        return answers

    def topics(self) -> list[str]:
        """Return the names of all topics, if all brokers report the same."""
        lists = [topic_names(reply) for reply in self._all_answers(MetadataRequest(topics=None))]
        if any(sorted(names) != sorted(lists[0]) for names in lists):
            raise Refused("TOPICS_DIFFER")  # one broker has not applied all changes yet
        return lists[0]

    def offsets(
        self, topic: str, partitions: Sequence[int], timestamp: int, *, stable: bool = False
    ) -> dict[int, int]:
        """Return the offset of each partition at a timestamp, as the only leader reports it.

        `stable` asks for the last stable offset. Raise Refused if no broker, or more than one,
        leads.
        """
        wanted = [ListOffsetsPartition(index, -1, timestamp) for index in partitions]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(stable), topics=[ListOffsetsTopic(topic, wanted)]
        )
        offsets: dict[int, int] = {}
        for reply in self._all_answers(request):
            for answer in reply.topics[0].partitions:
                if answer.error_code in NOT_LEADER:
                    continue
                check(answer.error_code)
                if answer.partition_index in offsets:
                    raise Refused("TWO_LEADERS")
                offsets[answer.partition_index] = answer.offset
        if len(offsets) < len(partitions):
            raise Refused("LEADER_NOT_AVAILABLE")
        return offsets

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return the group's committed offsets by partition, as the only coordinator reports them.

        Raise Refused if no broker, or more than one, is the coordinator.
        """
        wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
        request = OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=True)
        replies = [
            reply
            for reply in self._all_answers(request)
            if _offset_fetch_error(reply) != ErrorCode.NOT_COORDINATOR
        ]
        if len(replies) != 1:
            raise Refused("TWO_COORDINATORS" if replies else "COORDINATOR_NOT_AVAILABLE")
        check(replies[0].error_code)
        answers = [answer for topic_data in replies[0].topics for answer in topic_data.partitions]
        for answer in answers:
            check(answer.error_code)
        return {a.partition_index: a.committed_offset for a in answers if a.committed_offset >= 0}


def _ask_briefly(link: Link, request: Message) -> Any:  # noqa: ANN401 - any response
    """Return a broker's response; raises Refused soon if the broker does not answer."""
    link.patience_s = LOOK_PATIENCE_S
    try:
        return link.ask(request)
    finally:
        link.patience_s = REPLY_TIMEOUT_S


def _offset_fetch_error(reply: Any) -> int:  # noqa: ANN401 - the response of some version
    """Return the error of the whole group; if it has none, the error that all partitions share."""
    errors = {partition.error_code for topic in reply.topics for partition in topic.partitions}
    error: int = reply.error_code or (errors.pop() if len(errors) == 1 else 0)
    return error
