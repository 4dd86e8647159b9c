"""Groups: list, describe and delete them; fetch, commit and delete their committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from struct import error as StructError
from typing import Any, Final, TypeVar

from kwire.client.cluster import UNKNOWN_TOPIC_GRACE_S, Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, BrokerUnreachable, Misuse, check
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
)
from kwire.codecs.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.list_groups import ListedGroup, ListGroupsRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.share_group_describe import Assignment as ShareAssignment
from kwire.codecs.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.primitives import DecodeError

T = TypeVar("T")

SHARE: Final = "share"
STREAMS: Final = "streams"

CLASSIC_MEMBER: Final = 0
"""`member_type` of a member of the classic protocol in ConsumerGroupDescribe, from version 1 on."""
BY_NAME_VERSION_MAX: Final = 9
"""The last version of OffsetCommit and OffsetFetch that has topic names.  Later versions have topic
ids only, and a deleted topic, which may have committed offsets, has no id."""


@dataclass(slots=True)
class Member:
    """A member of a group, and its assignment."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    assignment: list[TopicPartition] = field(default_factory=list)
    epoch: int | None = None
    """The member epoch; None in a classic group."""
    protocol: str = "classic"
    """The protocol that the member uses."""
    target: list[TopicPartition] | None = None
    """The target assignment; None in a classic group."""
    tasks: Tasks | None = None
    """The tasks of a member of a streams group."""


@dataclass(slots=True)
class Tasks:
    """The tasks of a member of a streams group, with the names of Kafka Streams, such as `0_1`."""

    process_id: str
    active: list[str] = field(default_factory=list)
    standby: list[str] = field(default_factory=list)
    target_active: list[str] = field(default_factory=list)
    target_standby: list[str] = field(default_factory=list)
    warmup: list[str] = field(default_factory=list)
    """Tasks whose state the member restores, so that it can take them over."""


@dataclass(slots=True)
class Subtopology:
    """A part of the topology of a streams group: its tasks read the sources together."""

    subtopology_id: str
    sources: list[str]
    """The source topics, also those that other subtopologies write (repartition topics)."""
    repartition_sinks: list[str]
    changelogs: list[str]


@dataclass(slots=True)
class GroupDescription:
    """A group as its coordinator describes it."""

    group_id: str
    type: str
    """`classic`, `consumer` (KIP-848), `share` (KIP-932) or `streams` (KIP-1071)."""
    state: str
    assignor: str
    coordinator_id: int
    members: list[Member] = field(default_factory=list)
    epoch: int | None = None
    """The group epoch; None in a classic group."""
    assignment_epoch: int | None = None
    """The epoch of the target assignment; None in a classic group."""
    subtopologies: list[Subtopology] = field(default_factory=list)
    """The topology of a streams group."""


@dataclass(slots=True)
class Committed:
    """A committed offset: that of the next record that the group will read."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


def at_coordinator(cluster: Cluster, group_id: str, ask: Callable[[BrokerConnection], T]) -> T:
    """The result of `ask` with a connection to the group's coordinator.

    After a retriable error it looks up the coordinator and calls `ask` again.
    """

    def attempt() -> T:
        """Calls `ask` once.  After an error the coordinator is looked up again, since it may have
        moved."""
        try:
            return ask(cluster.coordinator(group_id))
        except (BrokerRefused, BrokerUnreachable):
            cluster.forget_coordinator(group_id)
            raise

    return cluster.retrying(attempt, unknown_topic_grace_s=UNKNOWN_TOPIC_GRACE_S)


def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """The groups of all brokers, sorted by id.

    `states` and `types` (`classic`, `consumer`, ...) limit the list, unless they are empty.
    """
    filters = {"states_filter": list(states), "types_filter": list(types)}

    def ask() -> list[ListedGroup]:
        """Asks every broker for the groups that it coordinates, and returns all, sorted by group
        id."""
        cluster.refresh([])
        groups: dict[str, ListedGroup] = {}
        for node_id in cluster.nodes:
            reply = cluster.node(node_id).call(ListGroupsRequest(**filters))
            check(reply.error_code, f"groups of broker {node_id}")
            groups |= {group.group_id: group for group in reply.groups}
        return sorted(groups.values(), key=lambda group: group.group_id)

    return cluster.retrying(ask)


Describe = Callable[[BrokerConnection, str], GroupDescription | None]
"""Describes a group of one type; None if no group of that type has the id."""


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """A group of any type with its members.

    Raises BrokerRefused, with GROUP_ID_NOT_FOUND if the group does not exist.
    """
    from kwire.client.streams_groups import describe_streams

    others: dict[int | None, Describe] = {
        ConsumerGroupDescribeRequest.API_KEY: _describe_consumer,
        ShareGroupDescribeRequest.API_KEY: _describe_share,
        StreamsGroupDescribeRequest.API_KEY: describe_streams,
    }

    def ask(connection: BrokerConnection) -> GroupDescription:
        """Describes the group as each type of group in turn, until the coordinator knows it as that
        type.  Raises BrokerRefused (GROUP_ID_NOT_FOUND) if it is of none."""
        described = _describe_classic(connection, group_id)
        for api_key, describe in others.items():
            # An older broker does not serve the describe requests of the newer types of groups.
            if described is None and api_key in connection.versions:
                described = describe(connection, group_id)
        if described is None:
            raise BrokerRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
        return described

    described = at_coordinator(cluster, group_id, ask)
    described.coordinator_id = cluster.coordinator_id(group_id)
    return described


def _describe_classic(connection: BrokerConnection, group_id: str) -> GroupDescription | None:
    """A classic group, or None if no classic group has this id."""
    return classic_group(connection.call(DescribeGroupsRequest(groups=[group_id])).groups[0])


def classic_group(group: DescribedClassicGroup) -> GroupDescription | None:
    """The description of a classic group in a response, or None if the group does not exist.

    Raises BrokerRefused for the group's error.
    """
    group_id = group.group_id
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
        return None
    check(group.error_code, f"group {group_id}", group.error_message)
    members = [
        Member(
            member.member_id,
            member.client_id,
            member.client_host,
            member.group_instance_id,
            _assigned(group.protocol_type, member.member_assignment),
        )
        for member in group.members
    ]
    return GroupDescription(
        group_id, "classic", group.group_state, group.protocol_data, -1, members
    )


def _assigned(protocol_type: str, assignment: bytes) -> list[TopicPartition]:
    """Return the partitions in a member's assignment; none if it is not an assignment of
    consumers."""
    if protocol_type != "consumer" or not assignment:
        return []  # Kafka Connect and others have their own formats
    from kwire.client.membership.subscription import read_assignment

    try:
        return read_assignment(assignment)
    except (DecodeError, StructError):
        return []  # a client may send any bytes; the group is described without them


def _describe_consumer(connection: BrokerConnection, group_id: str) -> GroupDescription | None:
    """Describes a group of the consumer protocol (KIP-848); None if it is of another type or does
    not exist."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    return consumer_group(connection.call(request).groups[0])


def consumer_group(group: DescribedConsumerGroup) -> GroupDescription | None:
    """As `classic_group`, for a group of the consumer protocol."""
    group_id = group.group_id
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(group.error_code, f"group {group_id}", group.error_message)
    members = [
        Member(
            member.member_id,
            member.client_id,
            member.client_host,
            member.instance_id,
            _placed(member.assignment),
            epoch=member.member_epoch,
            protocol="classic" if member.member_type == CLASSIC_MEMBER else "consumer",
            target=_placed(member.target_assignment),
        )
        for member in group.members
    ]
    return GroupDescription(
        group_id,
        "consumer",
        group.group_state,
        group.assignor_name,
        -1,
        members,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _describe_share(connection: BrokerConnection, group_id: str) -> GroupDescription | None:
    """Describes a share group (KIP-932); None if it is of another type or does not exist."""
    return share_group(connection.call(ShareGroupDescribeRequest(group_ids=[group_id])).groups[0])


def share_group(group: DescribedShareGroup) -> GroupDescription | None:
    """As `classic_group`, for a share group."""
    group_id = group.group_id
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(group.error_code, f"group {group_id}", group.error_message)
    members = [
        Member(
            member.member_id,
            member.client_id,
            member.client_host,
            assignment=_placed(member.assignment),
            epoch=member.member_epoch,
            protocol=SHARE,
        )
        for member in group.members
    ]
    return GroupDescription(
        group_id,
        SHARE,
        group.group_state,
        group.assignor_name,
        -1,
        members,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _placed(assignment: Assignment | ShareAssignment) -> list[TopicPartition]:
    """Return the partitions of an assignment in a response."""
    return [
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    ]


def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete a group that has no members, and its committed offsets."""

    def ask(connection: BrokerConnection) -> None:
        result = connection.call(DeleteGroupsRequest(groups_names=[group_id])).results[0]
        check(result.error_code, f"delete group {group_id}")

    at_coordinator(cluster, group_id, ask)


def fetch_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Committed]:
    """The committed offsets of a group, for `partitions` or for all.

    Partitions without a committed offset are left out.
    """
    indexes_by_topic = None if partitions is None else by_topic(partitions)

    def every_topic(topic_class: Callable[..., T]) -> list[T] | None:
        """Return the wanted topics as objects of `topic_class`, the class for the version of the
        request.  None stands for all topics of the group."""
        if indexes_by_topic is None:
            return None
        return [
            topic_class(name=name, partition_indexes=indexes)
            for name, indexes in indexes_by_topic.items()
        ]

    def ask(connection: BrokerConnection) -> dict[TopicPartition, Committed]:
        """Sends OffsetFetch to the coordinator and returns the committed offsets."""
        request = OffsetFetchRequest()
        if (
            connection.version_for(request) < 8
        ):  # KIP-709: version 8 and later have a list of groups
            request.group_id = group_id
            request.topics = every_topic(OffsetFetchRequestTopic)
            return _committed(group_id, connection.call(request))
        topics = every_topic(OffsetFetchRequestTopics)
        request.groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics)]
        reply = connection.call(request, version_max=BY_NAME_VERSION_MAX)
        return _committed(group_id, reply.groups[0])

    return at_coordinator(cluster, group_id, ask)


def _committed(
    group_id: str,
    response: Any,  # noqa: ANN401 - two classes with the same fields
) -> dict[TopicPartition, Committed]:
    """Return the committed offsets in a response.  Partitions without one have the offset -1 there
    and are left out."""
    check(response.error_code, f"offsets of group {group_id}")
    offsets = {}
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"offset of group {group_id} in {topic.name}")
            if partition.committed_offset >= 0:
                offsets[TopicPartition(topic.name, partition.partition_index)] = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.metadata,
                )
    return offsets


def commit_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets without being a member.  The group must have no members."""
    request = commit_request(group_id, offsets)

    def ask(connection: BrokerConnection) -> None:
        reply = connection.call(request, version_max=BY_NAME_VERSION_MAX)
        check_per_partition(reply.topics, f"commit offset of group {group_id} in")

    at_coordinator(cluster, group_id, ask)


def commit_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    """An OffsetCommit without a member.  A member adds its id and its generation or epoch."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(topic, index)],
                        committed_metadata="",
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )


def delete_offsets(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete the committed offsets of these partitions."""
    indexes_by_topic = by_topic(partitions)
    if not indexes_by_topic:
        raise Misuse("no partition is given")
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in indexes_by_topic.items()
        ],
    )

    def ask(connection: BrokerConnection) -> None:
        reply = connection.call(request)
        check(reply.error_code, f"delete offsets of group {group_id}")
        check_per_partition(reply.topics, f"delete offset of group {group_id} in")

    at_coordinator(cluster, group_id, ask)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, as most requests have them."""
    indexes_by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes_by_topic.setdefault(topic, []).append(index)
    return indexes_by_topic


def check_per_partition(topics: Iterable[Any], what: str) -> None:
    """Raise BrokerRefused for the first partition of a response that has an error."""
    for topic in topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{what} {topic.name}-{partition.partition_index}")
