"""The time index: each new largest timestamp of the segment, with its offset.

Entry, 12 bytes, big endian (Kafka's TimeIndex):

    timestamp        int64   largest timestamp in the segment up to here, ms
    relative offset  int32   last offset of the batch with this timestamp, minus the base offset

Timestamps and offsets both grow from entry to entry.  The last entry of a rolled segment is its
largest timestamp; retention and timestamp lookups choose segments by it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kwire.log.index.entries import Index

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")


class TimeIndex(Index):
    """The offsets of the growing timestamps of one segment."""

    __slots__ = ()

    def __init__(self, path: Path | str, base_offset: int, files: Files) -> None:
        super().__init__(path, base_offset, files, ENTRY, _TIMESTAMP)

    def append(self, timestamp: int, offset: int) -> None:
        """Add a timestamp if it is larger than that of the last entry."""
        last_timestamp, last_offset = self.last()
        if timestamp > last_timestamp and (offset > last_offset or not self.count):
            self.data.extend(ENTRY.pack(timestamp, offset - self.base_offset))

    def at(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of an entry."""
        timestamp, relative = ENTRY.unpack_from(self.data, number * ENTRY.size)
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp`, or (-1, base offset) if there is none."""
        number = self.floor(timestamp)
        return (-1, self.base_offset) if number < 0 else self.at(number)

    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, or (-1, base offset) if there is none."""
        count = self.count
        return self.at(count - 1) if count else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after `offset`; offsets grow with timestamps."""
        keep = self.count
        while keep and self.at(keep - 1)[1] >= offset:
            keep -= 1
        self.keep(keep)
