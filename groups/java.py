"""What clients can see of Java's hashing: the coordinator of a group, and who wins a draw."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(1 << 31)


def string_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def hash_bucket(text: str, capacity: int = 16) -> int:
    """The bucket of a `HashMap` of `capacity` (a power of two) that `text` falls into.

    A HashMap is walked bucket by bucket, so this is the order in which Apache Kafka meets the
    names of up to twelve assignors.
    """
    value = string_hash(text) & 0xFFFFFFFF
    return (value ^ value >> 16) & (capacity - 1)


@lru_cache(maxsize=8192)
def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group.

    The cache is as large as the number of groups that a busy broker sees at one time; hashing a
    long group id takes longer than the rest of a heartbeat.
    """
    value = string_hash(group_id)
    return (0 if value == _INT_MIN else abs(value)) % partitions
