"""Java's string hashes and HashMap order, where clients can see their results.

They decide which partition (and so which broker) stores a group, which assignor wins a tie, and the
order in which partitions are assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import count
from typing import Generic, TypeVar

_INT_MIN = -(1 << 31)


def utf16(text: str) -> bytes:
    """The UTF-16 units of a string (big-endian), by which Java counts, compares and hashes."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """Return Java's `String.hashCode` as a signed 32-bit number."""
    units = utf16(text)
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def hash_bucket(text: str, capacity: int = 16) -> int:
    """The bucket of `text` in a HashMap of `capacity` (a power of two).

    A HashMap is iterated bucket by bucket, so this is the order in which Apache Kafka sees the
    names of up to twelve assignors.
    """
    value = string_hash(text) & 0xFFFFFFFF
    # As Java's HashMap.hash, which mixes the upper 16 bits into the lower ones.
    return (value ^ value >> 16) & (capacity - 1)


@lru_cache(maxsize=8192)
def partition_for(group_id: str, partitions: int) -> int:
    """The partition of an internal topic that stores a group (or another key, such as an id).

    It is cached for as many groups as a busy broker has active: hashing a long group id takes
    longer than the rest of a heartbeat.
    """
    value = string_hash(group_id)
    # As Kafka's Utils.abs: the smallest int has no positive counterpart in Java.
    return (0 if value == _INT_MIN else abs(value)) % partitions


# -- the iteration order of a HashMap

K = TypeVar("K")

TABLE_SIZE = 16
LOAD = 0.75
_CROWDED_BUCKET = 8
_CROWDED_TABLE = 64
"""If a bucket has more than _CROWDED_BUCKET keys, a smaller table grows; a larger one turns the
bucket into a tree."""


class HashTable(Generic[K]):
    """Keys in the iteration order of Java's HashMap, and so of its HashSet.

    The order is bucket by bucket, and within a bucket the order of insertion; `computeIfAbsent`
    inserts at the front.  The table doubles as it fills and never shrinks.  Not modelled: a bucket
    of more than eight keys in a table of 64 or more, which Java turns into a tree.
    """

    __slots__ = ("_buckets", "_hash", "_keys", "_ranks", "_size")

    def __init__(
        self, hash_code: Callable[[K], int], keys: Iterable[K] = (), size: int = TABLE_SIZE
    ) -> None:
        """`size` is the initial table size, a power of two."""
        self._hash = hash_code
        self._size = size
        self._keys: dict[K, tuple[int, int]] = {}
        """Key -> its spread hash and its rank within its bucket."""
        self._ranks = count()
        self._buckets: dict[int, int] = {}
        for key in keys:
            self.add(key)

    @classmethod
    def of_collection(cls, hash_code: Callable[[K], int], keys: Iterable[K]) -> HashTable[K]:
        """`new HashSet<>(collection)`, which is sized for the collection."""
        listed = list(keys)
        return cls(hash_code, listed, max(table_size(int(len(listed) / LOAD) + 1), TABLE_SIZE))

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[K]:
        mask = self._size - 1
        keys = self._keys
        return iter(sorted(keys, key=lambda key: (keys[key][0] & mask, keys[key][1])))

    def add(self, key: K, *, in_front: bool = False) -> None:
        """Add a key, unless present; `in_front` as `computeIfAbsent` does.

        `computeIfAbsent` grows a full table before it looks for the key, not afterwards, and its
        limit for a crowded bucket is one key lower.
        """
        if in_front:
            self._grow_when_full()
        if key in self._keys:
            return
        value = self._hash(key) & 0xFFFFFFFF
        # As HashMap.hash: mixes the upper 16 bits into the lower ones.
        spread = value ^ value >> 16
        rank = next(self._ranks)
        self._keys[key] = spread, -rank if in_front else rank
        bucket = spread & (self._size - 1)
        crowd = self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        if crowd > _CROWDED_BUCKET - in_front and self._size < _CROWDED_TABLE:
            self._double()
        if not in_front:
            self._grow_when_full()

    def _grow_when_full(self) -> None:
        if len(self._keys) > self._size * LOAD:
            self._double()

    def discard(self, key: K) -> None:
        """Remove a key, if present; the table does not shrink."""
        entry = self._keys.pop(key, None)
        if entry is not None:
            self._buckets[entry[0] & (self._size - 1)] -= 1

    def _double(self) -> None:
        """Double the table, and count the keys of each bucket anew."""
        self._size *= 2
        self._buckets = {}
        for spread, _ in self._keys.values():
            bucket = spread & (self._size - 1)
            self._buckets[bucket] = self._buckets.get(bucket, 0) + 1


def table_size(capacity: int) -> int:
    """The table size that a HashMap chooses for a requested capacity.

    Capacity 0 gives 2 here: Java's table of size 1 grows to 2 with its first key.
    """
    return 1 << (capacity - 1).bit_length()


def integer_hash(value: int) -> int:
    return value


@lru_cache(maxsize=8192)
def uuid_hash(uuid: bytes) -> int:
    """`hashCode` of Kafka's Uuid and of Java's UUID: the four 32-bit parts, XORed; unsigned."""
    value = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (value >> 32 ^ value) & 0xFFFFFFFF
