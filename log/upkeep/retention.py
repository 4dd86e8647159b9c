"""What may go: `retention.ms`, `retention.bytes`, DeleteRecords, and what is before the log start.

A segment goes only when all of it is below the high watermark, and only from the front, so that a
log never has a hole.  The last segment goes too when it is due: a new, empty one takes its place.
Kafka's order: log start offset, then size, then time.
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
    """Make `offset` the first that may be read (DeleteRecords); gives the log start offset.

    OFFSET_OUT_OF_RANGE if it is behind the high watermark, POLICY_VIOLATION if the topic is
    compacted and nothing else, as its consumers count on the last record of each key.
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
    """Apply the topic's retention; gives the number of segments that went."""
    log.check_online()
    try:
        gone = _delete(log, now_ms, high_watermark, _before_log_start(log), "log start offset")
        if log.config.delete:
            gone += _delete(log, now_ms, high_watermark, _beyond_size(log), "retention.bytes")
            gone += _delete(log, now_ms, high_watermark, _beyond_age(log, now_ms), "retention.ms")
    except OSError as error:
        raise log.storage.refused(error) from error
    return gone


def _before_log_start(log: Log) -> Callable[[Segment], bool]:
    def due(segment: Segment) -> bool:
        following = log.segments.after(segment)
        return following is not None and following.base_offset <= log.log_start_offset

    return due


def _beyond_size(log: Log) -> Callable[[Segment], bool]:
    limit = log.config.retention_bytes
    excess = log.segments.size_bytes - limit if limit >= 0 else -1

    def due(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size_bytes or excess < 0:
            return False
        excess -= segment.size_bytes
        return True

    return due


def _beyond_age(log: Log, now_ms: int) -> Callable[[Segment], bool]:
    limit = log.config.retention_ms

    def due(segment: Segment) -> bool:
        return limit >= 0 and now_ms - segment.largest_timestamp() > limit

    return due


def _delete(
    log: Log, now_ms: int, high_watermark: int, due: Callable[[Segment], bool], why: str
) -> int:
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
    _logger.info("%r: %d segments go because of %s", log, len(deletable), why)
    following = log.segments.after(deletable[-1])
    assert following is not None
    # First the offset, then the files: a reader must never be sent to a segment that is gone.
    log.increment_log_start_offset(following.base_offset)
    remove_segments(log, deletable, now_ms)
    return len(deletable)
