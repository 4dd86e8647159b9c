"""Checks an entry of a segment's time index against the batches, as the file has no checksum.

An entry points to the first batch with its timestamp as the largest; all earlier batches have
smaller ones.  So the check reads the batches between the entry and the one before it: usually
`index.interval.bytes`, more if many batches have the same timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.segment import Segment

WALKED_BYTES_MAX = 1024 * 1024
"""The most bytes that are read before an entry.  The distance to the previous entry may be larger;
as long as timestamps never go back, the batch just before a wrong entry shows the error."""


def holds(segment: Segment, number: int) -> bool:
    """Return whether entry `number`, counted from 0, fits the batches."""
    index = segment.time_index
    timestamp, offset = index.at(number)
    before_timestamp, before = index.at(number - 1) if number else (-1, segment.base_offset)
    if before_timestamp >= timestamp or (number and before >= offset) or offset < before:
        return False
    for _, header in segment.headers(_start(segment, before, offset)):
        if header.last_offset >= offset:
            return header.max_timestamp == timestamp
        if header.max_timestamp >= timestamp:
            return False
    return False


def _start(segment: Segment, before: int, offset: int) -> int:
    """Return the position at which the check begins: that of the previous entry, or a nearer
    one.
    """
    start, end = segment.floor_position(before), segment.floor_position(offset)
    if end - start <= WALKED_BYTES_MAX:
        return start
    nearer = segment.offset_index.upper_bound(end - WALKED_BYTES_MAX, 0)
    return end if nearer is None else segment.floor_position(nearer)
