"""A broker's topics and their last records as text."""

from __future__ import annotations

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer
from kwire.client.offsets import end_offsets, start_offsets
from kwire.client.topics import list_topics
from kwire.testing.values import line_of, place_of, text_of


def contents(cluster: Cluster, records_max: int) -> str:
    """Each topic with its last records, `records_max` at most.  Raises ClientError."""
    lines: list[str] = []
    for topic in list_topics(cluster):
        name = str(topic.name)
        partitions = [TopicPartition(name, index) for index in range(len(topic.partitions))]
        lines += _topic_lines(cluster, name, partitions, records_max)
    return "\n".join(lines) or "no topics"


def _topic_lines(
    cluster: Cluster, name: str, partitions: list[TopicPartition], records_max: int
) -> list[str]:
    """Return the lines about one topic: a headline with its counts, then its last records.  Each
    partition gets an equal share of `records_max`, at least one record."""
    starts, ends = start_offsets(cluster, partitions), end_offsets(cluster, partitions)
    count = sum(ends[partition] - starts[partition] for partition in partitions)
    partition_max = max(1, records_max // len(partitions))
    shown_from = {
        partition: max(starts[partition], ends[partition] - partition_max)
        for partition in partitions
    }
    head = f"{name}: {len(partitions)} partitions, {count} records"
    record_lines = _record_lines(cluster, shown_from, ends)
    return [head if len(record_lines) >= count else f"{head}, the last ones:", *record_lines]


def _record_lines(
    cluster: Cluster, shown_from: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> list[str]:
    """Return a line for each record from the offsets `shown_from` up to the end offsets `ends`,
    ordered by partition and offset."""
    consumer = Consumer(cluster)
    consumer.assign(shown_from)
    records = []
    try:
        while any(consumer.positions[partition] < end for partition, end in ends.items()):
            records += consumer.poll()
    finally:
        consumer.close()
    records.sort(key=lambda record: (record.partition, record.offset))
    return [f"  {place_of(r)}  {line_of(text_of(r.key), text_of(r.value))}" for r in records]
