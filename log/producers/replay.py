"""Rebuilds the producer state of a partition from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.batches import BatchHeader, records
from kwire.codecs.control import EndTxnMarker, read_marker
from kwire.log.reading.region import read_exactly
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.index.txn_index import AbortedTxn
    from kwire.log.producers.snapshots import ProducerSnapshots
    from kwire.log.producers.state import ProducerState
    from kwire.log.segments import Segments


def rebuild(
    producers: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Rebuild the state before `end_offset` from the newest snapshot and the batches behind it.

    `end_offset` is the log end offset, or the base offset of a segment.  The caller takes a
    snapshot of the result.
    """
    snapshots.remove_outside(log_start_offset, end_offset)
    snapshots.load_latest(producers, log_start_offset, now_ms)
    for segment in segments.between(producers.end_offset, end_offset):
        _replay_segment(producers, segment)
    producers.end_offset = end_offset


def _replay_segment(producers: ProducerState, segment: Segment) -> None:
    """Update the producers by the batches of the segment from their end offset on."""
    position = segment.floor_position(producers.end_offset)
    for at, header in segment.headers(position):
        if header.last_offset >= producers.end_offset:
            note(producers, segment, at, header)


def note(
    producers: ProducerState, segment: Segment, position: int, header: BatchHeader
) -> AbortedTxn | None:
    """Note the batch at `position`; returns the transaction that it aborted, or None."""
    aborted = None
    if header.producer_id >= 0:
        marker = marker_at(segment, position, header)
        completed = producers.note(header, header.base_offset, marker)
        if completed is not None:
            aborted = producers.complete(completed)
    producers.end_offset = header.last_offset + 1
    return aborted


def marker_of(batch: bytes | bytearray | memoryview, header: BatchHeader) -> EndTxnMarker | None:
    """The marker in a control batch; None for other batches, or after compaction removed it."""
    if not header.is_control:
        return None
    record = next(iter(records(batch)), None)
    return None if record is None else read_marker(record)


def marker_at(segment: Segment, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """Like `marker_of`, for the batch at `position`."""
    if not header.is_control:
        return None
    return marker_of(
        read_exactly(segment.files, segment.open(), position, header.size_bytes), header
    )
