"""What a broker's topics hold, as lines for a person."""

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
        lines += _of_topic(cluster, name, partitions, records_max)
    return "\n".join(lines) or "no topics"


def _of_topic(
    cluster: Cluster, name: str, partitions: list[TopicPartition], records_max: int
) -> list[str]:
    starts, ends = start_offsets(cluster, partitions), end_offsets(cluster, partitions)
    count = sum(ends[each] - starts[each] for each in partitions)
    each_max = max(1, records_max // len(partitions))
    begins = {each: max(starts[each], ends[each] - each_max) for each in partitions}
    head = f"{name}: {len(partitions)} partitions, {count} records"
    shown = _lines(cluster, begins, ends)
    return [head if len(shown) >= count else f"{head}, the last ones:", *shown]


def _lines(
    cluster: Cluster, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> list[str]:
    consumer = Consumer(cluster)
    consumer.assign(begins)
    found = []
    try:
        while any(consumer.positions[each] < ends[each] for each in ends):
            found += consumer.poll()
    finally:
        consumer.close()
    found.sort(key=lambda record: (record.partition, record.offset))
    return [
        f"  {place_of(each)}  {line_of(text_of(each.key), text_of(each.value))}" for each in found
    ]
