"""Lookups in a log: offsets by timestamp and by leader epoch, and aborted transactions.

All raise LogError: KAFKA_STORAGE_ERROR if the disk fails, CORRUPT_MESSAGE for corrupt batches,
INVALID_RECORD for a record above max.decompressed.message.bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kwire.codecs.batches import CorruptBatch, OversizedRecord
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.reading import aborted, time_lookup
from kwire.log.recovery import epoch_check

if TYPE_CHECKING:
    from kwire.log.log import Log
    from kwire.log.reading.region import Region
    from kwire.log.reading.time_lookup import TimestampOffset
    from kwire.log.segment import Segment

T = TypeVar("T")


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampOffset | None:
    """The first record at or after `timestamp` (ms), None if there is none."""
    find = time_lookup.first_at_or_after
    limit = log.config.record_bytes_max
    return _guarded(log, lambda: find(log.segments, timestamp, log.log_start_offset, limit))


def max_timestamp_offset(log: Log) -> TimestampOffset | None:
    """The first record with the largest timestamp of all (KIP-734); None if the log is empty."""
    limit = log.config.record_bytes_max
    return _guarded(log, lambda: time_lookup.largest(log.segments, limit))


def end_offset_for_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """(epoch, end offset) of the largest epoch up to `epoch`; (-1, -1) if unknown (KIP-101)."""
    _check_epochs(log)
    return log.epochs.end_offset_for(epoch, log.log_end_offset)


def epoch_for(log: Log, offset: int) -> int | None:
    """The leader epoch in which `offset` was written, None if it is unknown."""
    _check_epochs(log)
    return log.epochs.epoch_for(offset)


def _check_epochs(log: Log) -> None:
    """Check the leader epochs against the log at the first lookup. Raises LogError."""
    epochs = log.epochs
    if not epochs.checked:
        start, end = log.log_start_offset, log.log_end_offset
        _guarded(log, lambda: epoch_check.ensure_checked(epochs, log.segments, start, end))


def aborted_transactions(log: Log, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions that overlap the range."""
    found: list[tuple[int, int]] = []
    try:
        for segment in log.segments.from_floor(from_offset):
            if not segment.txn_index.checked:
                check_txn_index(log, segment)
            entries, complete = segment.txn_index.collect(from_offset, to_offset)
            found += [(entry.producer_id, entry.first_offset) for entry in entries]
            if complete:
                break
    except (OSError, CorruptBatch) as error:
        raise log.storage.read_failed(error) from error
    return found


def aborted_in(log: Log, region: Region) -> list[tuple[int, int]]:
    """Return the aborted transactions in `region`, for a read_committed consumer.

    The offset index gives an upper bound of the region's end, a few batches too high, so the result
    may have a transaction too many; Apache Kafka's has it too.
    """
    segment = log.segments.floor(region.segment_base_offset)
    bound = None
    if segment is not None and segment.base_offset == region.segment_base_offset:
        try:
            bound = segment.offset_index.upper_bound(region.position, region.size_bytes)
        except OSError as error:
            raise log.storage.read_failed(error) from error
        if bound is None and (following := log.segments.after(segment)) is not None:
            bound = following.base_offset
    return aborted_transactions(
        log, region.base_offset, log.log_end_offset if bound is None else bound
    )


def check_txn_index(log: Log, segment: Segment) -> None:
    """Check the segment's transaction index, rebuild a wrong one.  Raises OSError, CorruptBatch."""
    aborted.ensure_checked(
        segment,
        log.segments,
        log.snapshots,
        expiration_ms=log.producers.expiration_ms,
        compacted=log.config.compact or log.first_dirty_offset is not None,
    )


def _guarded(log: Log, look_up: Callable[[], T]) -> T:
    """Return the result of a lookup; a disk error or corrupt batch becomes a LogError.

    So does a record above max.decompressed.message.bytes.
    """
    try:
        return look_up()
    except OversizedRecord as error:
        raise LogError(ErrorCode.INVALID_RECORD, str(error)) from error
    except (OSError, CorruptBatch) as error:
        raise log.storage.read_failed(error) from error
