"""Start offsets of share groups (KIP-932): describe, reset and delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
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
    """The start offset and lag of a share group in a partition; None if the broker gives none."""

    start_offset: int | None
    lag: int | None
    """How many records the group has not finished, including those that members hold."""


def share_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """The offsets of all partitions that the group has begun to read."""

    def ask(connection: BrokerConnection) -> dict[TopicPartition, ShareOffset]:
        """Sends the request to the coordinator once and returns the start offset and the lag of
        each partition."""
        all_topics = DescribeShareGroupOffsetsRequestGroup(group_id, None)
        [group] = connection.call(DescribeShareGroupOffsetsRequest([all_topics])).groups
        check(group.error_code, f"offsets of group {group_id}", group.error_message)
        offsets = {}
        for topic in group.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.topic_name, result.partition_index)
                check(result.error_code, f"offset of group {group_id} in {partition}")
                offsets[partition] = ShareOffset(
                    _not_negative(result.start_offset), _not_negative(result.lag)
                )
        return offsets

    return at_coordinator(cluster, group_id, ask)


def _not_negative(number: int) -> int | None:
    return None if number < 0 else number


def alter_share_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set the start offsets of a group without members.

    Acknowledgements of later records are forgotten.  Raises BrokerRefused, for example with
    NON_EMPTY_GROUP.
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

    def ask(connection: BrokerConnection) -> None:
        """Sends the request to the coordinator once.  Raises BrokerRefused for the first partition
        that is refused."""
        reply = connection.call(AlterShareGroupOffsetsRequest(group_id, topics))
        check(reply.error_code, f"reset group {group_id}", reply.error_message)
        for topic in reply.responses:
            for result in topic.partitions:
                what = f"reset group {group_id} in {topic.topic_name}-{result.partition_index}"
                check(result.error_code, what, result.error_message)

    at_coordinator(cluster, group_id, ask)


def delete_share_offsets(cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
    """Delete the offsets of topics of a group without members.  Raises BrokerRefused."""
    request = DeleteShareGroupOffsetsRequest(
        group_id, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    )

    def ask(connection: BrokerConnection) -> None:
        """Sends the request once.  Raises BrokerRefused for the first topic that is refused."""
        reply = connection.call(request)
        check(reply.error_code, f"delete offsets of group {group_id}", reply.error_message)
        for topic in reply.responses:
            what = f"delete offsets of group {group_id} in {topic.topic_name}"
            check(topic.error_code, what, topic.error_message)

    at_coordinator(cluster, group_id, ask)
