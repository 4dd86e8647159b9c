"""Whether an entry of a segment's time index is what the batches say: the file has no checksum.

An entry names the first batch that has its timestamp for the largest, and all batches before that
one have smaller ones.  So the batches between an entry and the one before it are looked at: about
one `index.interval.bytes` of them, except where timestamps stand still for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.segment import Segment

WALKED_BYTES_MAX = 1024 * 1024
"""Looked at before an entry.  It may stand farther behind the one before it; as long as timestamps
never go back, a wrong place shows in the very batch before it."""


def holds(segment: Segment, number: int) -> bool:
    """Whether entry `number`, counted from 0, is right."""
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
    """Where the walk to `offset` begins: at the entry before it, if that is not too far."""
    start, end = segment.floor_position(before), segment.floor_position(offset)
    if end - start <= WALKED_BYTES_MAX:
        return start
    nearer = segment.offset_index.upper_bound(end - WALKED_BYTES_MAX, 0)
    return end if nearer is None else segment.floor_position(nearer)
