"""Where a group is to read on: the offsets that a reset means, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.offsets import end_offsets, offsets_at, start_offsets


class Target(Enum):
    """What the offsets of a reset follow from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIMESTAMP = auto()
    """The first record at or after a time in ms."""
    SHIFT = auto()
    """So many records after the committed offset, or before it if below zero."""


def plan_reset(
    cluster: Cluster,
    committed: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    target: Target,
    value: int,
) -> dict[TopicPartition, int]:
    """The new offset of each partition, kept within what the partition holds, as Kafka's tool does.

    Raises Misuse for a shift of what was never committed.
    """
    if not partitions:
        raise Misuse("there is nothing to reset: the group has committed nothing")
    if target is Target.EARLIEST:
        return start_offsets(cluster, partitions)
    if target is Target.LATEST:
        return end_offsets(cluster, partitions)
    if target is Target.TIMESTAMP:
        return offsets_at(cluster, partitions, value)
    if target is Target.SHIFT:
        never = [partition for partition in partitions if partition not in committed]
        if never:
            names = ", ".join(map(str, never))
            raise Misuse(f"nothing is committed for {names}, so there is nothing to shift")
        wanted = {partition: committed[partition] + value for partition in partitions}
    else:
        wanted = dict.fromkeys(partitions, value)
    starts, ends = start_offsets(cluster, partitions), end_offsets(cluster, partitions)
    return {p: min(max(offset, starts[p]), ends[p]) for p, offset in wanted.items()}
