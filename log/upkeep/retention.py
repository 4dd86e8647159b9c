"""Removes records: `retention.ms`, `retention.bytes`, DeleteRecords, and before the log start.

Only whole segments are removed, only below the high watermark, and only from the front, so that a
log never has a gap.  If the last segment is due, a new, empty one replaces it.  The order of the
rules is Kafka's: log start offset, then size, then time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.upkeep.removal import remove_segments

if TYPE_CHECKING:
    from kwire.log.log import Log
    from kwire.log.segment import Segment

_logger = logging.getLogger(__name__)


def delete_records(log: Log, offset: int, high_watermark: int) -> int:
    """Make `offset` the log start offset (DeleteRecords); returns the log start offset.

    Raises LogError: OFFSET_OUT_OF_RANGE above the high watermark; POLICY_VIOLATION if the topic is
    only compacted, as its consumers rely on the last record of each key.
    """
    if log.config.compact and not log.config.delete:
        raise LogError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy is compact")
    if not 0 <= offset <= high_watermark:
        raise LogError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{offset} is behind the high watermark, {high_watermark}",
        )
    log.increment_log_start_offset(offset)
    log.upkeep[log] = None
    return log.log_start_offset


def delete_expired_segments(log: Log, now_ms: int, high_watermark: int) -> int:
    """Apply the topic's retention; returns the number of removed segments.  Raises LogError."""
    log.check_online()
    try:
        count = _delete(log, now_ms, high_watermark, _before_log_start(log), "log start offset")
        if log.config.delete:
            count += _delete(log, now_ms, high_watermark, _beyond_size(log), "retention.bytes")
            count += _delete(log, now_ms, high_watermark, _beyond_age(log, now_ms), "retention.ms")
    except OSError as error:
        raise log.storage.refused(error) from error
    return count


def _before_log_start(log: Log) -> Callable[[Segment], bool]:
    """Return a test of segments: are all of its records before the log start offset?"""

    def due(segment: Segment) -> bool:
        following = log.segments.after(segment)
        return following is not None and following.base_offset <= log.log_start_offset

    return due


def _beyond_size(log: Log) -> Callable[[Segment], bool]:
    """Return a test of segments, oldest first: may it go by `retention.bytes`?

    A segment goes only if what stays is still at least the limit. A negative limit keeps all.
    """
    limit = log.config.retention_bytes
    excess = log.segments.size_bytes - limit if limit >= 0 else -1

    def due(segment: Segment) -> bool:
        """Return whether the segment may go, and count its bytes as gone."""
        nonlocal excess
        if excess < segment.size_bytes or excess < 0:
            return False
        excess -= segment.size_bytes
        return True

    return due


def _beyond_age(log: Log, now_ms: int) -> Callable[[Segment], bool]:
    """Return a test of segments: is its newest record older than `retention.ms`?

    A negative limit keeps all.
    """
    limit = log.config.retention_ms

    def due(segment: Segment) -> bool:
        return limit >= 0 and now_ms - segment.largest_timestamp() > limit

    return due


def _delete(
    log: Log, now_ms: int, high_watermark: int, due: Callable[[Segment], bool], reason: str
) -> int:
    """Remove the oldest segments for which `due` holds; return how many.

    It stops at the first that is not due or not wholly below the high watermark. If all go, a new
    active segment is begun first, because a log is never without one.
    """
    segments = list(log.segments)
    deletable = []
    for segment in segments:
        following = log.segments.after(segment)
        end = log.log_end_offset if following is None else following.base_offset
        if high_watermark < end or (following is None and not segment.size_bytes):
            break
        if not due(segment):
            break
        deletable.append(segment)
    if not deletable:
        return 0
    if len(deletable) == len(segments):
        log.roll(now_ms)
    _logger.info("Deleting %d segments of %r because of %s", len(deletable), log, reason)
    following = log.segments.after(deletable[-1])
    assert following is not None
    # First the offset, then the files: no read may begin in a segment that is removed.
    log.increment_log_start_offset(following.base_offset)
    remove_segments(log, deletable, now_ms)
    return len(deletable)
