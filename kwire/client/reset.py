"""The offsets to which a reset sets a group, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.offsets import end_offsets, offsets_at, start_offsets


class Target(Enum):
    """The kinds of resets."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIMESTAMP = auto()
    """The first record at or after a time in ms."""
    SHIFT = auto()
    """A number of records after the committed offset, or before it if negative."""


def plan_reset(
    cluster: Cluster,
    committed: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    target: Target,
    value: int,
) -> dict[TopicPartition, int]:
    """The new offset of each partition, limited to its start and end offset, as in Kafka's tool.

    Raises Misuse for a shift of a partition without a committed offset.
    """
    if not partitions:
        raise Misuse("nothing to reset: the group has no committed offsets")
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
            raise Misuse(f"cannot shift {names}: the group has no committed offset there")
        wanted = {partition: committed[partition] + value for partition in partitions}
    else:
        wanted = dict.fromkeys(partitions, value)
    starts, ends = start_offsets(cluster, partitions), end_offsets(cluster, partitions)
    return {p: min(max(offset, starts[p]), ends[p]) for p, offset in wanted.items()}
