"""A link to a cluster: asks the leader, the coordinator or the controller, whoever that is now.

Where it asks what is the case, and not for something to be done, it asks all brokers.  A leader
that has been replaced and was not told, because it is cut off, answers from the past; Apache
Kafka's does too.  So an answer counts only when every broker has spoken and a single one claims to
be the leader: whoever leads since has acknowledged something only after knowing that it does.
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
"""Of a look at all brokers: one that stands still makes it worthless."""


class ClusterLink(Link):
    """As a Link to a lone broker. All methods raise Refused."""

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
        """The answer of whom it concerns; after a refusal it is looked up anew."""
        try:
            address = self._address_for(request)
            return self._links[address].ask(request)
        except Refused:
            self.forget()
            raise

    def forget(self) -> None:
        """What is known of leaders and coordinators may be over."""
        self._metadata = None
        self._coordinators.clear()

    def produce(
        self, topic: str, partition: int, value: bytes, now_ms: int, key: bytes | None = None
    ) -> int:
        try:
            return super().produce(topic, partition, value, now_ms, key)
        except Refused:
            self.forget()
            raise

    # -- who it concerns

    def _address_for(self, request: Message) -> Address:
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
                return self._address_of(self._known().controller_id)
            case _:
                return self._any()

    def _any(self) -> Address:
        """A broker that answers."""
        if self._metadata is None:
            self._learn()
        return self._answering

    def _known(self) -> MetadataResponse:
        return self._metadata or self._learn()

    def _learn(self) -> MetadataResponse:
        refused = Refused("CLOSED")
        for address in self._addresses:
            try:
                found: MetadataResponse = _look(self._links[address], MetadataRequest(topics=None))
            except Refused as error:
                refused = error
                continue
            self._metadata, self._answering = found, address
            return found
        raise Refused("NO_BROKER") from refused

    def _address_of(self, node_id: int) -> Address:
        for broker in self._known().brokers:
            if broker.node_id == node_id:
                return (broker.host, broker.port)
        raise Refused("BROKER_NOT_AVAILABLE")

    def _leader(self, topic: str, partition: int) -> Address:
        for each in self._known().topics:
            if each.name == topic:
                for found in each.partitions:
                    if found.partition_index == partition:
                        return self._address_of(found.leader_id)
        raise Refused("UNKNOWN_TOPIC_OR_PARTITION")

    def _coordinator(self, group: str) -> Address:
        if group not in self._coordinators:
            found = self._links[self._any()].ask(FindCoordinatorRequest(key=group, key_type=GROUP))
            check(found.error_code)
            self._coordinators[group] = (found.host, found.port)
        return self._coordinators[group]

    # -- what is the case

    def _all_answers(self, request: Message) -> list[Any]:
        answers = []
        for link in self._links.values():
            try:
                answers.append(_look(link, request))
            except Refused as refused:
                raise Refused("BROKER_NOT_AVAILABLE") from refused
        return answers

    def topics(self) -> list[str]:
        """The names of all topics, once all brokers report the same."""
        lists = [topic_names(reply) for reply in self._all_answers(MetadataRequest(topics=None))]
        if any(sorted(each) != sorted(lists[0]) for each in lists):
            raise Refused("TOPICS_DIFFER")  # one broker has yet to apply what the others have
        return lists[0]

    def offsets(
        self, topic: str, partitions: Sequence[int], timestamp: int, *, stable: bool = False
    ) -> dict[int, int]:
        wanted = [ListOffsetsPartition(index, -1, timestamp) for index in partitions]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(stable), topics=[ListOffsetsTopic(topic, wanted)]
        )
        found: dict[int, int] = {}
        for reply in self._all_answers(request):
            for answer in reply.topics[0].partitions:
                if answer.error_code in NOT_LEADER:
                    continue
                check(answer.error_code)
                if answer.partition_index in found:
                    raise Refused("TWO_LEADERS")
                found[answer.partition_index] = answer.offset
        if len(found) < len(partitions):
            raise Refused("LEADER_NOT_AVAILABLE")
        return found

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
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
        found = [answer for each in replies[0].topics for answer in each.partitions]
        for answer in found:
            check(answer.error_code)
        return {a.partition_index: a.committed_offset for a in found if a.committed_offset >= 0}


def _look(link: Link, request: Message) -> Any:  # noqa: ANN401 - any response
    """A broker's answer, if it does not stand still."""
    link.patience_s = LOOK_PATIENCE_S
    try:
        return link.ask(request)
    finally:
        link.patience_s = REPLY_TIMEOUT_S


def _offset_fetch_error(reply: Any) -> int:  # noqa: ANN401 - the response of some version
    """Of the group as a whole, or as all of its partitions have it."""
    errors = {a.error_code for each in reply.topics for a in each.partitions}
    error: int = reply.error_code or (errors.pop() if len(errors) == 1 else 0)
    return error
