"""Finds the cleanable part of a log, and whether it is due (Kafka's LogCleanerManager)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.log import Log
    from kwire.log.segment import Segment

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cleanable:
    """A log whose part from `first_dirty` to `upper_bound`, a segment's base offset, is dirty."""

    log: Log
    first_dirty: int
    upper_bound: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether `min.cleanable.dirty.ratio` or `max.compaction.lag.ms` asks for a cleaning."""
        if self.is_overdue and self.dirty_bytes:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def examine(log: Log, high_watermark: int, now_ms: int) -> Cleanable:
    """Return the cleanable part of a log.  Raises OSError or CorruptBatch if it cannot be read."""
    first_dirty = _first_dirty(log)
    limit = max(first_dirty, _first_uncleanable(log, first_dirty, high_watermark, now_ms))
    upper_bound = _segment_start(log, limit)
    segments = list(log.segments)
    return Cleanable(
        log,
        first_dirty,
        upper_bound,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size_bytes for segment in _dirty(log, first_dirty, upper_bound)),
        _is_overdue(log, first_dirty, now_ms),
    )


def _first_dirty(log: Log) -> int:
    """Return the end of the last cleaning; the log start if the log no longer has that offset."""
    checkpoint = log.first_dirty_offset
    start = log.log_start_offset
    if checkpoint is None:
        return start
    if start <= checkpoint <= log.log_end_offset:
        return checkpoint
    if checkpoint > log.log_end_offset or not log.config.delete:
        _logger.warning("%r was cleaned up to %d, which it does not hold", log, checkpoint)
    log.first_dirty_offset = start
    return start


def _first_uncleanable(log: Log, first_dirty: int, high_watermark: int, now_ms: int) -> int:
    """Return the first offset that is unstable, not on disk, in the active segment, or too young.

    Kafka does not require durability.  kwire's recovery drops segments above a gap unless they are
    known to be on disk, so only durable segments are compacted.
    """
    limits = [high_watermark, log.recovery_point, log.segments.active.base_offset]
    if log.first_unstable_offset is not None:
        limits.append(log.first_unstable_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        limits += [
            segment.base_offset
            for segment in _inactive_from(log, first_dirty)
            if segment.largest_timestamp() > now_ms - lag_ms
        ]
    return min(limits)


def _inactive_from(log: Log, offset: int) -> list[Segment]:
    return [segment for segment in log.segments.from_floor(offset) if not _is_active(log, segment)]


def _is_active(log: Log, segment: Segment) -> bool:
    return segment is log.segments.active


def _segment_start(log: Log, offset: int) -> int:
    """The base offset of the segment with `offset`."""
    segment = log.segments.floor(offset)
    return log.segments.first.base_offset if segment is None else segment.base_offset


def _dirty(log: Log, first_dirty: int, upper_bound: int) -> list[Segment]:
    if first_dirty >= upper_bound:
        return []
    return [each for each in _inactive_from(log, first_dirty) if each.base_offset < upper_bound]


def _is_overdue(log: Log, first_dirty: int, now_ms: int) -> bool:
    """Return whether the oldest dirty segment began longer than `max.compaction.lag.ms` ago."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= now_ms:
        return False  # the default is "never": nothing is read for it
    stamps = (segment.first_batch_timestamp() for segment in _inactive_from(log, first_dirty))
    return min((stamp for stamp in stamps if stamp > 0), default=now_ms) < now_ms - lag_ms
