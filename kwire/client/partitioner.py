"""The partition of a key, by the same hash as in Kafka's Java producer."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with the seed that Kafka uses, as an unsigned 32-bit number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if length > whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a key: its hash without the sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
