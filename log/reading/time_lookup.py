"""Finds records by their timestamps, for ListOffsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batches import BatchHeader, Record, records
from kwire.log.reading.region import read_exactly

if TYPE_CHECKING:
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments


class TimestampOffset(NamedTuple):
    """A record found; `leader_epoch` is the one it was written in, -1 if not known."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Segments, timestamp: int, start: int, record_bytes_max: int | None = None
) -> TimestampOffset | None:
    """Return the first record from offset `start` on whose timestamp is at least `timestamp`.

    As in Kafka only the first segment is searched whose largest timestamp is large enough.  Raises
    OversizedRecord if a record of more than `record_bytes_max` comes first in a compressed batch.
    """
    for segment in segments:
        if segment.largest_timestamp() >= timestamp:
            return _first_in_segment(segment, timestamp, start, record_bytes_max)
    return None


def _first_in_segment(
    segment: Segment, timestamp: int, start: int, record_bytes_max: int | None
) -> TimestampOffset | None:
    """Return the first record from offset `start` on with at least `timestamp`, or None.

    The indexes give a position to begin at; only batches that may hold such a record are read.
    """
    position = max(segment.time_floor_position(timestamp), segment.floor_position(start))
    for at, header in segment.headers(position):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            data = read_exactly(segment.files, segment.open(), at, header.size_bytes)
            found = _first_of(records(data, record_bytes_max=record_bytes_max), timestamp, start)
            if found is not None:
                epoch = header.partition_leader_epoch
                return TimestampOffset(found.timestamp, found.offset, epoch)
    return None


def _first_of(batch: Iterator[Record], timestamp: int, start: int) -> Record | None:
    """Return the first record from offset `start` on with at least `timestamp`, or None."""
    for record in batch:
        if record.timestamp >= timestamp and record.offset >= start:
            return record
    return None


def largest(segments: Segments, record_bytes_max: int | None = None) -> TimestampOffset | None:
    """Return the first record of the log with the largest timestamp.

    Raises OversizedRecord if a record of more than `record_bytes_max` comes first in its batch.
    """
    best: Segment | None = None
    for segment in segments:
        if segment.size_bytes and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    timestamp = best.max_timestamp
    for at, header in best.headers(best.floor_position(best.max_timestamp_offset)):
        if header.max_timestamp == timestamp:
            return _largest_in_batch(best, at, header, record_bytes_max)
    return None


def _largest_in_batch(
    segment: Segment, position: int, header: BatchHeader, record_bytes_max: int | None
) -> TimestampOffset:
    """Return the first record with the batch's largest timestamp (a header may have claimed
    more).
    """
    data = read_exactly(segment.files, segment.open(), position, header.size_bytes)
    found: Record | None = None
    for record in records(data, record_bytes_max=record_bytes_max):
        if found is None or record.timestamp > found.timestamp:
            found = record
            if record.timestamp == header.max_timestamp:  # No later record has a larger one.
                break
    if found is None:  # compaction has emptied the batch
        return TimestampOffset(
            header.max_timestamp, header.last_offset, header.partition_leader_epoch
        )
    return TimestampOffset(found.timestamp, found.offset, header.partition_leader_epoch)
