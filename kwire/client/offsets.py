"""Offsets of partitions: start offsets, end offsets, and offsets of a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import check
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""Special timestamps of ListOffsets (KIP-734 for the last one)."""


class Isolation(IntEnum):
    """Whether a reader sees records of open and aborted transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetAt(NamedTuple):
    """A result of ListOffsets; both fields are -1 if all records are earlier than the timestamp."""

    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAt]:
    """For each partition, the offset of the first record at or after the timestamp (ms).

    LATEST, EARLIEST and MAX_TIMESTAMP are special timestamps.
    """
    missing = dict(timestamps)
    offsets: dict[TopicPartition, OffsetAt] = {}

    def ask() -> None:
        """Asks each leader once for the offsets that are still missing."""
        for leader, topics in cluster.by_leader(missing).items():
            reply = cluster.node(leader).call(_request(topics, missing, isolation))
            _take(cluster, reply, offsets)
            for partition in offsets:
                missing.pop(partition, None)

    cluster.retrying(ask)
    return offsets


def _request(
    topics: Mapping[str, list[TopicPartition]],
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> ListOffsetsRequest:
    """Return a ListOffsets request for the times `timestamps`, in ms, or -1 (end) and -2 (start).
    Replica id -1 stands for a consumer."""
    return ListOffsetsRequest(
        # Kafka's replica id of consumers.
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition.partition, timestamp=timestamps[partition]
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )


def _take(
    cluster: Cluster, reply: ListOffsetsResponse, offsets: dict[TopicPartition, OffsetAt]
) -> None:
    """Add the offsets of a response to `offsets`.

    An error is raised after the leader is forgotten, so that the caller can ask the new leader for
    the rest.
    """
    for topic in reply.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.name, result.partition_index)
            if result.error_code:
                cluster.forget_leader(topic.name)
                check(_code_of_leader(result.error_code), f"offsets of {partition}")
            offsets[partition] = OffsetAt(result.offset, result.timestamp)


def _code_of_leader(code: int) -> int:
    """The error code to raise for an error code of a partition's leader.

    A new leader that does not know its partition has not got the metadata yet.  So
    UNKNOWN_TOPIC_OR_PARTITION becomes a code after which the client reads the metadata again; they
    show whether the topic exists.
    """
    unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if unknown else code


def end_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset after the last record that a consumer with this isolation level gets."""
    offsets = list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
    return {partition: at.offset for partition, at in offsets.items()}


def start_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The log start offset of each partition."""
    offsets = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    return {partition: at.offset for partition, at in offsets.items()}


def offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after a time, or the end offset if there is none."""
    partitions = list(partitions)
    offsets = list_offsets(cluster, dict.fromkeys(partitions, timestamp_ms))
    without_record = [partition for partition, at in offsets.items() if at.offset < 0]
    ends = end_offsets(cluster, without_record) if without_record else {}
    return {partition: ends.get(partition, at.offset) for partition, at in offsets.items()}
