"""Appends the markers of several transactions with one write.

The result is that of `Log.append_marker` for each of them.  A broker serves several requests
together, and the transactions that these end often wrote to the same partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batch_layout import LOG_OVERHEAD, START
from kwire.codecs.batches import BatchHeader
from kwire.codecs.control import EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from kwire.log.log import Log
    from kwire.log.segment import Segment


class MarkerBatch(NamedTuple):
    """The marker of one transaction, as a batch that this broker built."""

    batch: bytearray
    header: BatchHeader
    content: EndTxnMarker
    transaction_version: int


def append_markers(
    log: Log, markers: Sequence[MarkerBatch], *, leader_epoch: int, now_ms: int
) -> list[ErrorCode]:
    """Append markers as the leader; return the error of each, NONE if it is in the log.

    The batches stay as they are: their offsets are written into a copy.
    """
    if not _may_share_a_write(log, markers, leader_epoch, now_ms):
        return [_append_alone(log, marker, leader_epoch, now_ms) for marker in markers]
    errors = [_refusal(log, marker) for marker in markers]
    accepted = [
        marker for marker, error in zip(markers, errors, strict=True) if error is ErrorCode.NONE
    ]
    error = _write(log, accepted, leader_epoch) if accepted else ErrorCode.NONE
    return [refusal or error for refusal in errors]


def _append_alone(log: Log, marker: MarkerBatch, leader_epoch: int, now_ms: int) -> ErrorCode:
    """Append one marker with a write of its own; return its error."""
    try:
        log.append_marker(
            marker.batch.copy(),
            marker.header,
            marker.content,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            transaction_version=marker.transaction_version,
        )
    except LogError as error:
        return error.error
    return ErrorCode.NONE


def _refusal(log: Log, marker: MarkerBatch) -> ErrorCode:
    """Return the error of a marker that its producer's state refuses, else NONE."""
    try:
        log.producers.check_marker(marker.header, marker.content, marker.transaction_version)
    except LogError as error:
        return error.error
    return ErrorCode.NONE


def _may_share_a_write(
    log: Log, markers: Sequence[MarkerBatch], leader_epoch: int, now_ms: int
) -> bool:
    """Return whether each marker would go into the active segment, with no flush in between.

    A producer may have only one of the markers, because the second is checked by the state after
    the first.
    """
    segment = log.segments.active
    count = len(markers)
    size_bytes = segment.size_bytes + sum(len(marker.batch) for marker in markers)
    newest_ms = max(marker.header.max_timestamp for marker in markers)
    return (
        not log.offline
        and not log.config.log_append_time
        and not log.flushes_by_messages
        and leader_epoch == log.epochs.latest_epoch
        and size_bytes <= log.config.segment_bytes
        and segment.has_index_room(count)
        and log.log_end_offset + count - segment.base_offset <= RELATIVE_OFFSET_MAX
        and not (segment.size_bytes and log.rolling.is_due(segment, newest_ms, now_ms))
        and len({marker.header.producer_id for marker in markers}) == count
    )


def _write(log: Log, markers: Sequence[MarkerBatch], leader_epoch: int) -> ErrorCode:
    """Write the markers into the active segment; return their error.

    The log is unchanged after an error, unless it went offline.
    """
    segment, offset = log.segments.active, log.log_end_offset
    position = segment.size_bytes
    data = bytearray().join([marker.batch for marker in markers])
    at = 0
    for number, marker in enumerate(markers):
        # The CRC does not cover the base offset and the leader epoch.
        size_bytes = len(marker.batch)
        START.pack_into(data, at, offset + number, size_bytes - LOG_OVERHEAD, leader_epoch)
        at += size_bytes
    try:
        segment.write(position, data, len(data))
    except OSError as error:
        return log.storage.refused(error).error
    try:
        _note(log, segment, markers)
    except LogError as error:
        return error.error
    return ErrorCode.NONE


def _note(log: Log, segment: Segment, markers: Sequence[MarkerBatch]) -> None:
    """Update the segment and the producers by markers that were written at the log's end.

    Raises LogError if the transaction index cannot be written; the log is offline then.
    """
    for batch, header, content, _ in markers:
        offset = log.log_end_offset
        segment.note_batch(segment.size_bytes, len(batch), offset, header.max_timestamp)
        log.log_end_offset = offset + 1
        if header.producer_id >= 0:
            log.note_marker(segment, header, offset, content)
    log.producers.end_offset = log.log_end_offset
    log.upkeep[log] = None
