"""The segments of one log in the order of their offsets, with lookups by offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from kwire.log.segment import Segment


class Segments:
    """The segments, ordered by base offset; appends go to the last one, `active`."""

    __slots__ = ("_bases", "_segments", "active")

    active: Segment

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Add a segment; it replaces one of the same base offset."""
        at = bisect_left(self._bases, segment.base_offset)
        if at < len(self._bases) and self._bases[at] == segment.base_offset:
            self._segments[at] = segment
        else:
            self._bases.insert(at, segment.base_offset)
            self._segments.insert(at, segment)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        """Remove a segment; if it was the last, the one before becomes the active segment."""
        at = bisect_left(self._bases, segment.base_offset)
        assert self._segments[at] is segment
        del self._segments[at]
        del self._bases[at]
        if self._segments:
            self.active = self._segments[-1]

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def floor(self, offset: int) -> Segment | None:
        """The last segment that begins at or before `offset`; None if `offset` is before all."""
        at = bisect_right(self._bases, offset)
        return self._segments[at - 1] if at else None

    def from_floor(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` (or the first one), and all segments behind it."""
        at = bisect_right(self._bases, offset)
        return self._segments[max(at - 1, 0) :]

    def after(self, segment: Segment) -> Segment | None:
        """The next segment."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def batch_at(self, offset: int) -> BatchHeader | None:
        """The header of the first batch that ends at or after `offset`."""
        for segment in self.from_floor(offset):
            if (batch := segment.find(offset)) is not None:
                return batch[1]
        return None

    def between(self, first: int, end: int) -> list[Segment]:
        """The segments that may hold an offset in [first, end)."""
        return [segment for segment in self.from_floor(first) if segment.base_offset < end]
