"""Share groups (KIP-932): from where they read, and setting it anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import Connection
from kwire.client.errors import check
from kwire.client.groups import at_coordinator, by_topic
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """From where a group reads a partition; None where nothing has been read, or is not told."""

    start_offset: int | None
    lag: int | None
    """How many records are left for the group, those on their way among them."""


def share_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """Of all partitions that the group has begun to read."""

    def ask(connection: Connection) -> dict[TopicPartition, ShareOffset]:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id, None)
        [told] = connection.call(DescribeShareGroupOffsetsRequest([wanted])).groups
        check(told.error_code, f"offsets of group {group_id}", told.error_message)
        found = {}
        for topic in told.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.topic_name, each.partition_index)
                check(each.error_code, f"offset of group {group_id} in {partition}")
                found[partition] = ShareOffset(_known(each.start_offset), _known(each.lag))
        return found

    return at_coordinator(cluster, group_id, ask)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def alter_share_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Have a group without members read from there; whatever it has done behind that is forgotten.

    Raises BrokerRefused, as NON_EMPTY_GROUP.
    """
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic,
            [
                AlterShareGroupOffsetsRequestPartition(index, offsets[TopicPartition(topic, index)])
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]

    def ask(connection: Connection) -> None:
        told = connection.call(AlterShareGroupOffsetsRequest(group_id, topics))
        check(told.error_code, f"reset group {group_id}", told.error_message)
        for topic in told.responses:
            for each in topic.partitions:
                what = f"reset group {group_id} in {topic.topic_name}-{each.partition_index}"
                check(each.error_code, what, each.error_message)

    at_coordinator(cluster, group_id, ask)


def delete_share_offsets(cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
    """Have a group without members forget from where it reads topics.  Raises BrokerRefused."""
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]

    def ask(connection: Connection) -> None:
        told = connection.call(DeleteShareGroupOffsetsRequest(group_id, wanted))
        check(told.error_code, f"delete offsets of group {group_id}", told.error_message)
        for topic in told.responses:
            what = f"delete offsets of group {group_id} in {topic.topic_name}"
            check(topic.error_code, what, topic.error_message)

    at_coordinator(cluster, group_id, ask)
