"""Offsets of partitions: where they begin and end, and which offset belongs to a time."""

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
    """Whether records of unfinished and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetAt(NamedTuple):
    """An answer of ListOffsets; both are -1 where no record is that late."""

    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAt]:
    """For each partition the first offset whose record is not before the timestamp (ms), or what a
    special timestamp stands for."""
    missing = dict(timestamps)
    found: dict[TopicPartition, OffsetAt] = {}

    def ask() -> None:
        for leader, topics in cluster.by_leader(missing).items():
            reply = cluster.node(leader).call(_request(topics, missing, isolation))
            _take(cluster, reply, found)
            for partition in found:
                missing.pop(partition, None)

    cluster.retrying(ask)
    return found


def _request(
    topics: Mapping[str, list[TopicPartition]],
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
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
    cluster: Cluster, reply: ListOffsetsResponse, found: dict[TopicPartition, OffsetAt]
) -> None:
    """Keep what was answered; an error makes the caller ask the new leader for the rest."""
    for topic in reply.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                cluster.forget_leader(topic.name)
                check(_of_a_leader(answer.error_code), f"offsets of {partition}")
            found[partition] = OffsetAt(answer.offset, answer.timestamp)


def _of_a_leader(code: int) -> int:
    """Whoever is said to lead a partition that he does not know has not heard so yet; the metadata
    are asked again and say whether it is gone."""
    unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if unknown else code


def end_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset that comes after the last record which a consumer would get."""
    answers = list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
    return {partition: answer.offset for partition, answer in answers.items()}


def start_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset of the first record that is still there."""
    answers = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    return {partition: answer.offset for partition, answer in answers.items()}


def offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The offset to read from to get what came at or after a time: the end where nothing did."""
    partitions = list(partitions)
    answers = list_offsets(cluster, dict.fromkeys(partitions, timestamp_ms))
    late = [partition for partition, answer in answers.items() if answer.offset < 0]
    ends = end_offsets(cluster, late) if late else {}
    return {partition: ends.get(partition, answer.offset) for partition, answer in answers.items()}
