"""Finds the region of a segment file that a Fetch gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import LENGTH, LENGTH_POS, LOG_OVERHEAD
from kwire.log.reading.cold_lookup import ColdLookup, cold_lookup
from kwire.log.reading.region import Region, read_exactly
from kwire.log.reading.residency import TAIL_BYTES

if TYPE_CHECKING:
    from kwire.log.directory.files import Files
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments

POSITIONS_KEPT = 256
"""The most offsets whose positions are remembered: where consumers (often several) have read, and
the end of the log, where they wait."""


class Reader:
    """Finds the positions of offsets in segments, and remembers them in `positions`.

    Code that truncates, replaces or removes segments calls `forget`.
    """

    __slots__ = ("_files", "_segments", "positions")

    def __init__(self, segments: Segments, files: Files) -> None:
        self._segments = segments
        self._files = files
        self.positions: dict[int, tuple[Segment, int]] = {}

    def region(
        self, offset: int, end: int, max_bytes: int, max_offset: int, min_one_batch: bool
    ) -> Region | None:
        """Return the region from `offset` on in a log that ends at `end`; see `Log.read`.

        Raises OSError, CorruptBatch.
        """
        place = self.positions.get(offset)
        if place is None and (place := self._locate(offset)) is not None:
            self._remember(offset, *place)  # other consumers often read from the same offset
        if place is not None and place[1] == place[0].size_bytes:
            # The remembered end of a segment that was rolled since.
            following = self._segments.after(place[0])
            place = None if following is None else (following, 0)
        if place is None:
            return None
        segment, position = place
        at_end = max_offset >= end
        limit = segment.size_bytes if at_end else self._position_of(segment, max_offset)
        size = limit - position
        if size > max_bytes:
            size = self._cut(segment, position, size, max_bytes, min_one_batch)
        elif at_end and segment is self._segments.active:
            self._remember(end, segment, limit)
        if size <= 0:
            return None
        segment.recently_used = True
        file = segment.file or segment.open()
        return Region(file, position, size, offset, self._files, segment.base_offset)

    def _cut(
        self, segment: Segment, position: int, size: int, max_bytes: int, min_one_batch: bool
    ) -> int:
        """Return the size of a region of `size` bytes that is limited to `max_bytes`.

        With `min_one_batch` a larger first batch is returned whole (KIP-74), else it gives 0.
        """
        if max_bytes <= 0 and not min_one_batch:
            return 0
        # the int32 with the length of the batch
        head = read_exactly(self._files, segment.open(), position + LENGTH_POS, 4)
        first_batch: int = min(LENGTH.unpack(head)[0] + LOG_OVERHEAD, size)
        if first_batch <= max_bytes:
            return max_bytes
        return first_batch if min_one_batch else 0

    def cold_lookup(self, offset: int) -> ColdLookup | None:
        """Return what a thread has to read before `region` from `offset`; None if all is in
        memory.
        """
        segment = self._segments.active
        place = self.positions.get(offset)
        if place is not None:
            if place[0] is segment and segment.size_bytes - place[1] < TAIL_BYTES:
                return None
            segment = place[0]
        elif offset < segment.base_offset:
            floor = self._segments.floor(offset)
            if floor is None:
                return None
            segment = floor
        return cold_lookup(segment, offset)

    def remember_end(self, end: int) -> None:
        """Remember the position of the log end offset, at which a consumer waits."""
        active = self._segments.active
        self._remember(end, active, active.size_bytes)

    def forget(self) -> None:
        """Drop all remembered positions: segments were truncated, replaced or removed."""
        self.positions.clear()

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        if len(self.positions) >= POSITIONS_KEPT:
            self.positions.clear()
        self.positions[offset] = segment, position

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Return the segment and position of the first batch that ends at or after `offset`."""
        for segment in self._segments.from_floor(offset):
            if segment.base_offset >= offset:
                if segment.size_bytes:
                    return segment, 0
            elif (found := segment.find(offset)) is not None:
                return segment, found[0]
        return None

    def _position_of(self, segment: Segment, max_offset: int) -> int:
        """Return the position in `segment` at which the readable batches end."""
        place = self.positions.get(max_offset)
        if place is None:
            floor = self._segments.floor(max_offset)
            if floor is None or floor.base_offset < segment.base_offset:
                return 0
            found = floor.find(max_offset)
            place = floor, floor.size_bytes if found is None else found[0]
            self._remember(max_offset, *place)
        if place[0] is segment:
            return place[1]
        return segment.size_bytes if place[0].base_offset > segment.base_offset else 0
