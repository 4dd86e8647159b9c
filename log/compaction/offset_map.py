"""Finds the last record of each key, within a limit of memory.

The dirty part of a log is read backwards, so the first record found of a key is its last one.
Only the keys found and the offsets of the records to keep are held in memory; the older records of
a key, which are most, cost one lookup in a set.  Kafka reads forwards into a hash table
of MD5 sums; an interpreter's table costs 70 to 100 bytes a key against Kafka's 24, so a log with
very many keys takes more passes.

When memory is full at `first_offset`, the records before it are filtered by the keys found so far,
and the next pass continues from there.  Keys of up to 23 bytes are stored whole, so two of them are
never taken for one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kwire.log.compaction.key_scan import KEY_BYTES_MAX, BatchKeys

_OBJECT_BYTES = 33  # of an empty bytes object, which grows in steps of 16
_SLOT_BYTES = 16  # of the set's table
_LIVE_BYTES = 8
_TABLE_MIN = 1 << 3


def _object_bytes(key_bytes: float) -> int:
    # rounded up to a multiple of 16
    return int(key_bytes + _OBJECT_BYTES + 15) & ~15


def _table_bytes(keys: int) -> int:
    """The memory of a set of so many keys: its table doubles when it is three fifths full."""
    slots = _TABLE_MIN
    while slots * 3 // 5 <= keys:
        slots *= 2
    return slots * _SLOT_BYTES


class OffsetMap:
    """The keys of the records in [`first_offset`, `end_offset`), and the last record of each."""

    __slots__ = ("_bytes_max", "_key_bytes", "_live", "_nulls", "end_offset", "first_offset",
                 "keys")  # fmt: skip

    def __init__(self, end_offset: int, bytes_max: int) -> None:
        """Begin an empty map for the records before `end_offset`, of at most `bytes_max` bytes.

        Batches are added backwards, so `first_offset` begins at the end and falls.
        """
        self.end_offset = end_offset
        self.first_offset = end_offset
        self.keys: set[bytes] = set()
        self._bytes_max = bytes_max
        self._key_bytes = 0
        self._nulls: set[int] = set()
        self._live = array("q")

    def __len__(self) -> int:
        return len(self.keys)

    def has_room_for(self, more: int) -> bool:
        """Return whether so many more keys fit, even if all are new and of the largest size.

        An empty map has room for any number, so that each pass cleans at least one batch.
        """
        have = len(self.keys)
        if not have:
            return True
        table, grown = _table_bytes(have), _table_bytes(have + more)
        tables = grown if grown == table else grown + table  # both are there while it grows
        held = self._key_bytes + _LIVE_BYTES * have
        each = _LIVE_BYTES + _object_bytes(KEY_BYTES_MAX)
        return tables + held + each * more <= self._bytes_max

    def add(self, batch: BatchKeys, base_offset: int, dirty_from: int) -> None:
        """Add the batch at `base_offset`, which is before all batches that were added.

        Records before `dirty_from` are left out: they have been cleaned already.
        """
        if batch.has_nulls:
            self._nulls.add(base_offset)
        self.first_offset = max(base_offset, dirty_from)
        if self.keys.issuperset(batch.keys):  # the quick answer for most
            return
        last = dict(zip(batch.keys, batch.offsets, strict=True))
        if base_offset < dirty_from:
            last = {key: offset for key, offset in last.items() if offset >= dirty_from}
        fresh = last.keys() - self.keys
        if fresh:
            self._note(fresh, last)

    def _note(self, fresh: set[bytes], last: dict[bytes, int]) -> None:
        """Add the keys in `fresh`, which are new to the map; `last` has the last offset of each
        key. Offsets are appended in falling order, as batches come backwards; `freeze` reverses the
        list. The memory is estimated from the mean length of the keys.
        """
        self.keys |= fresh
        offsets: Iterable[int] = last.values()
        if len(fresh) < len(last):
            offsets = [last[key] for key in fresh]
        self._live.extend(sorted(offsets, reverse=True))
        mean = sum(map(len, fresh)) / len(fresh)
        self._key_bytes += len(fresh) * _object_bytes(mean)

    def passed(self, offset: int) -> None:
        """Note that all keys from `offset` on are in the map."""
        self.first_offset = min(self.first_offset, offset)

    def freeze(self) -> None:
        """Finish the map: no more batches are added."""
        self._live.reverse()

    def decides_by_offset(self, base_offset: int, last_offset: int) -> bool:
        """Return whether `live` alone decides on a batch: all of it is in the map, without
        tombstones.
        """
        return (
            base_offset >= self.first_offset
            and last_offset < self.end_offset
            and base_offset not in self._nulls
        )

    def live(self, base_offset: int, last_offset: int) -> array[int]:
        """The offsets from `base_offset` to `last_offset` with the last record of a key."""
        live = self._live
        first = bisect_left(live, base_offset)
        return live[first : bisect_right(live, last_offset, first)]

    def is_last(self, key: bytes | None, offset: int) -> bool:
        """Return whether the record is the last of its (short) key; False for a record without a
        key.
        """
        if offset >= self.end_offset:
            return True
        if offset >= self.first_offset:
            return len(self.live(offset, offset)) > 0
        return key is not None and key not in self.keys
