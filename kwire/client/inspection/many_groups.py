"""Many groups at once: their descriptions, offsets and lag, with few requests to each broker.

The coordinator of a group is the broker that lists it, so that no coordinator is looked up.  All
brokers are asked at the same time, and the errors of one broker or group do not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, ClientError, check
from kwire.client.groups import (
    BY_NAME_VERSION_MAX,
    SHARE,
    STREAMS,
    GroupDescription,
    classic_group,
    consumer_group,
    share_group,
)
from kwire.client.inspection.survey import from_each
from kwire.client.offsets import LATEST
from kwire.client.streams_groups import streams_group
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest

T = TypeVar("T")

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

GROUPS_AT_ONCE: Final = 200
"""Groups in one request, so that the answer keeps a broker busy for a short time only."""
PARTITIONS_AT_ONCE: Final = 2_000
"""Partitions in one ListOffsets request, for the same reason."""
MANY_GROUPS_SINCE: Final = 8
"""The first version of OffsetFetch that takes several groups (KIP-709)."""


class Listed(NamedTuple):
    """A group as the broker that coordinates it lists it."""

    group_id: str
    type: str
    """`classic`, `consumer`, `share` or `streams`."""
    state: str
    """Empty if the broker is older than Apache Kafka 2.6."""
    protocol: str
    coordinator_id: int


@dataclass(slots=True)
class ListedGroups:
    """The groups of all brokers that answered, sorted by id, and the errors of the others."""

    groups: list[Listed] = field(default_factory=list)
    troubles: dict[int, ClientError] = field(default_factory=dict)


@dataclass(slots=True)
class GroupPosition:
    """How far a group is in a partition: its next offset, and the records that are left.

    For a share group, the offset is the start offset, and the lag counts the records that are not
    finished.  None stands for what is unknown.
    """

    offset: int | None
    end_offset: int | None = None
    lag: int | None = None


def listed_groups(cluster: Cluster) -> ListedGroups:
    """The groups that each broker coordinates.  Raises ClientError if no broker answers."""
    cluster.retrying(lambda: cluster.refresh([]))
    found = ListedGroups()

    def ask(node_id: int, connection: BrokerConnection) -> list[Listed]:
        reply = connection.call(ListGroupsRequest())
        check(reply.error_code, f"groups of broker {node_id}")
        return [
            Listed(
                group.group_id,
                group.group_type.lower() or CLASSIC,  # before version 5 there is no type
                group.group_state,
                group.protocol_type,
                node_id,
            )
            for group in reply.groups
        ]

    for node_id, result in from_each(cluster, ask).items():
        if isinstance(result, ClientError):
            found.troubles[node_id] = result
        else:
            found.groups += result
    if found.troubles and len(found.troubles) == len(cluster.nodes):
        raise next(iter(found.troubles.values()))
    found.groups.sort()
    return found


# -- descriptions

_DESCRIBE: Final[
    Mapping[str, tuple[Callable[..., Any], Callable[[Any], GroupDescription | None]]]
] = {
    CLASSIC: (lambda ids: DescribeGroupsRequest(groups=ids), classic_group),
    CONSUMER: (lambda ids: ConsumerGroupDescribeRequest(group_ids=ids), consumer_group),
    SHARE: (lambda ids: ShareGroupDescribeRequest(group_ids=ids), share_group),
    STREAMS: (lambda ids: StreamsGroupDescribeRequest(group_ids=ids), streams_group),
}
"""How to ask for groups of a type, and how to read one of the answers."""


def describe_groups(
    cluster: Cluster, groups: Iterable[Listed]
) -> dict[str, GroupDescription | ClientError]:
    """The descriptions of groups by id, or why there is none.

    Groups that no longer exist are left out.
    """

    def ask(connection: BrokerConnection, listed: Sequence[Listed]) -> dict[str, Any]:
        """Describes the groups of one broker, with requests for each type."""
        found: dict[str, GroupDescription | ClientError] = {}
        for group_type, (request_for, convert) in _DESCRIBE.items():
            ids = [group.group_id for group in listed if group.type == group_type]
            for some in _chunks(ids, GROUPS_AT_ONCE):
                for answer in connection.call(request_for(some)).groups:
                    try:
                        description = convert(answer)
                    except BrokerRefused as refused:
                        found[answer.group_id] = refused
                        continue
                    if description is not None:
                        description.coordinator_id = listed[0].coordinator_id
                        found[answer.group_id] = description
        return found

    return _from_coordinators(cluster, groups, ask)


def _from_coordinators(
    cluster: Cluster,
    groups: Iterable[Listed],
    ask: Callable[[BrokerConnection, Sequence[Listed]], dict[str, T]],
) -> dict[str, T | ClientError]:
    """The results of all groups.  A broker that fails gives its error for each of its groups."""
    by_coordinator: dict[int, list[Listed]] = {}
    for group in groups:
        by_coordinator.setdefault(group.coordinator_id, []).append(group)

    def ask_broker(node_id: int, connection: BrokerConnection) -> dict[str, T]:
        listed = by_coordinator.get(node_id)
        return ask(connection, listed) if listed else {}

    found: dict[str, T | ClientError] = {}
    for node_id, result in from_each(cluster, ask_broker).items():
        if isinstance(result, ClientError):
            found |= {group.group_id: result for group in by_coordinator.get(node_id, ())}
        else:
            found |= result
    return found


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


# -- offsets

GroupPositions = dict[TopicPartition, GroupPosition]


def positions_of(
    cluster: Cluster, groups: Iterable[Listed]
) -> dict[str, GroupPositions | ClientError]:
    """The committed offsets of groups, or the start offsets of share groups; without end offsets.

    Partitions without an offset are left out.
    """

    def ask(connection: BrokerConnection, listed: Sequence[Listed]) -> dict[str, Any]:
        shares = [group.group_id for group in listed if group.type == SHARE]
        others = [group.group_id for group in listed if group.type != SHARE]
        return _committed(connection, others) | _started(connection, shares)

    return _from_coordinators(cluster, groups, ask)


def _committed(
    connection: BrokerConnection, group_ids: list[str]
) -> dict[str, GroupPositions | ClientError]:
    """The committed offsets of groups that one broker coordinates."""
    found: dict[str, GroupPositions | ClientError] = {}
    request = OffsetFetchRequest()
    if not group_ids:
        return found
    if connection.version_for(request, BY_NAME_VERSION_MAX) < MANY_GROUPS_SINCE:
        for group_id in group_ids:
            request = OffsetFetchRequest(group_id=group_id, topics=None)
            reply = connection.call(request, version_max=BY_NAME_VERSION_MAX)
            found[group_id] = _committed_in(group_id, reply)
        return found
    for some in _chunks(group_ids, GROUPS_AT_ONCE):
        request.groups = [OffsetFetchRequestGroup(each, topics=None) for each in some]
        for group in connection.call(request, version_max=BY_NAME_VERSION_MAX).groups:
            found[group.group_id] = _committed_in(group.group_id, group)
    return found


def _committed_in(
    group_id: str,
    response: Any,  # noqa: ANN401 - two classes with the same fields
) -> GroupPositions | ClientError:
    if response.error_code:
        return BrokerRefused(response.error_code, f"offsets of group {group_id}")
    return {
        TopicPartition(topic.name, each.partition_index): GroupPosition(each.committed_offset)
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def _started(
    connection: BrokerConnection, group_ids: list[str]
) -> dict[str, GroupPositions | ClientError]:
    """The start offsets and the lag of share groups that one broker coordinates."""
    found: dict[str, GroupPositions | ClientError] = {}
    for some in _chunks(group_ids, GROUPS_AT_ONCE):
        asked = [DescribeShareGroupOffsetsRequestGroup(each, None) for each in some]
        for group in connection.call(DescribeShareGroupOffsetsRequest(asked)).groups:
            if group.error_code:
                what = f"offsets of group {group.group_id}"
                found[group.group_id] = BrokerRefused(group.error_code, what, group.error_message)
                continue
            found[group.group_id] = {
                TopicPartition(topic.topic_name, each.partition_index): GroupPosition(
                    _known(each.start_offset), lag=_known(each.lag)
                )
                for topic in group.topics
                for each in topic.partitions
                if not each.error_code
            }
    return found


def _known(number: int) -> int | None:
    return None if number < 0 else number


def known_end_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, timestamp: int = LATEST
) -> dict[TopicPartition, int]:
    """The end offsets of partitions, or those of another special timestamp of ListOffsets.

    Partitions that have no leader now, or do not exist, are left out.  So are those of brokers
    that do not answer.  The leaders are those of the metadata that the cluster keeps.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    wanted = set(partitions)
    for name in {partition.topic for partition in wanted}:
        topic = cluster.topics.get(name)
        for state in () if topic is None else topic.partitions:
            partition = TopicPartition(name, state.partition_index)
            if partition in wanted:
                by_leader.setdefault(state.leader_id, []).append(partition)

    def ask(node_id: int, connection: BrokerConnection) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for some in _chunks(by_leader.get(node_id, ()), PARTITIONS_AT_ONCE):
            offsets |= _offsets_at(connection, some, timestamp)
        return offsets

    found: dict[TopicPartition, int] = {}
    for result in from_each(cluster, ask).values():
        if not isinstance(result, ClientError):
            found |= result
    return found


def _offsets_at(
    connection: BrokerConnection, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """The offsets of partitions at their leader; those with an error are left out."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics.setdefault(topic, []).append(asked)
    reply = connection.call(
        ListOffsetsRequest(
            replica_id=-1,  # Kafka's replica id of consumers
            topics=[ListOffsetsTopic(name=name, partitions=own) for name, own in topics.items()],
        )
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in reply.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }


def with_lag(
    positions: Mapping[TopicPartition, GroupPosition], ends: Mapping[TopicPartition, int]
) -> GroupPositions:
    """GroupPositions with their end offsets and their lag, where these are known."""
    found = {}
    for partition, position in positions.items():
        end, lag = ends.get(partition), position.lag
        if lag is None and position.offset is not None and end is not None:
            lag = max(0, end - position.offset)
        found[partition] = GroupPosition(position.offset, end, lag)
    return found
