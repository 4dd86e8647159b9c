"""The offset index: the file positions of offsets, with an entry every `index.interval.bytes`.

Entry, 8 bytes, big endian (Kafka's OffsetIndex):

    relative offset  int32   last offset of a batch, less the segment's base offset
    position         int32   where in the .log file that batch starts

Kafka's followers and its cleaner append several batches at once and then note the last offset of
them all with the position of the first; so an entry says "the batch at this position starts at or
before this offset", no more.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kwire.log.index.entries import Index

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

ENTRY = Struct(">ii")
_RELATIVE_OFFSET = Struct(">i")


class OffsetIndex(Index):
    """Offset -> file position, of one segment."""

    __slots__ = ()

    def __init__(self, path: Path | str, base_offset: int, files: Files) -> None:
        super().__init__(path, base_offset, files, ENTRY, _RELATIVE_OFFSET)

    def append(self, offset: int, position: int) -> None:
        self.data.extend(ENTRY.pack(offset - self.base_offset, position))

    def at(self, number: int) -> tuple[int, int]:
        """(offset, position) of an entry."""
        relative, position = ENTRY.unpack_from(self.data, number * ENTRY.size)
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or before `offset`, or (base offset, 0) if there is none."""
        number = self.floor(offset - self.base_offset)
        return (self.base_offset, 0) if number < 0 else self.at(number)

    def last(self) -> tuple[int, int]:
        """(offset, position) of the last entry, or (base offset, 0) if there is none."""
        count = self.count
        return self.at(count - 1) if count else (self.base_offset, 0)

    def upper_bound(self, position: int, size_bytes: int) -> int | None:
        """Return an offset above all batches in `size_bytes` from `position`, or None if no entry
        follows.

        It is the offset of the first entry at or after their end, so it may be too large.
        """
        end = position + size_bytes
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.at(middle)[1] < end:
                low = middle + 1
            else:
                high = middle
        return self.at(low)[0] if low < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after `offset`."""
        self.keep(self.floor(offset - self.base_offset - 1) + 1)
