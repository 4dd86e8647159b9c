"""What is asked of a log beside its batches: places by time and by epoch, and what was aborted.

LogError where the disk refuses (KAFKA_STORAGE_ERROR) or batches are corrupt (CORRUPT_MESSAGE).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kwire.codecs.batches import CorruptBatch
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
    return _guarded(log, lambda: find(log.segments, timestamp, log.log_start_offset))


def max_timestamp_offset(log: Log) -> TimestampOffset | None:
    """The first record that has the largest timestamp of all (KIP-734), None if empty."""
    return _guarded(log, lambda: time_lookup.largest(log.segments))


def end_offset_for_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """(epoch, end offset) of the largest epoch up to `epoch`; (-1, -1) if unknown (KIP-101)."""
    _check_epochs(log)
    return log.epochs.end_offset_for(epoch, log.log_end_offset)


def epoch_for(log: Log, offset: int) -> int | None:
    """The epoch in which `offset` was written, None if that is not known."""
    _check_epochs(log)
    return log.epochs.epoch_for(offset)


def _check_epochs(log: Log) -> None:
    epochs = log.epochs
    if not epochs.checked:
        start, end = log.log_start_offset, log.log_end_offset
        _guarded(log, lambda: epoch_check.ensure_checked(epochs, log.segments, start, end))


def aborted_transactions(log: Log, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions that overlap the range."""
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
    """The aborted transactions that a read_committed reader of `region` must know.

    The index tells where the region ends within a few batches, on the large side, so one too
    many may be named; that is what Apache Kafka does.
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
    """Have the segment's transaction index right.  OSError, CorruptBatch."""
    aborted.ensure_checked(
        segment,
        log.segments,
        log.snapshots,
        expiration_ms=log.producers.expiration_ms,
        compacted=log.config.compact or log.first_dirty_offset is not None,
    )


def _guarded(log: Log, look_up: Callable[[], T]) -> T:
    try:
        return look_up()
    except (OSError, CorruptBatch) as error:
        raise log.storage.read_failed(error) from error
