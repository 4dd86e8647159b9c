"""Cutting a log's end: a follower's log must not hold what its new leader does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.log import replay
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.log import Log


def truncate_to(log: Log, offset: int, now_ms: int) -> bool:
    """Drop every batch that ends at or after `offset`; False if there was nothing to drop."""
    log.check_online()
    if offset >= log.log_end_offset:
        # An epoch may have begun here without a record; the next leader knows nothing of it.
        log.epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully(log, offset, now_ms)
        return True
    try:
        behind = [segment for segment in log.segments if segment.base_offset > offset]
        remove_segments(log, behind, now_ms)
        active = log.segments.active
        active.truncate_to(offset, now_ms)
        log.epochs.truncate_from_end(offset)
        log.epochs.flush()
        end = max(active.next_offset(), min(offset, log.log_end_offset))
        log.log_start_offset = min(log.log_start_offset, offset)
        replay.rebuild(
            log.producers, log.snapshots, log.segments, log.log_start_offset, end, now_ms
        )
    except OSError as error:
        raise log.storage_failed(error) from error
    log.restarted(end)
    return True


def truncate_fully(log: Log, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
    """Drop all segments and go on with an empty one at `offset`."""
    log.check_online()
    try:
        remove_segments(log, log.segments, now_ms)
        log.segments.add(
            Segment.create(log.dir, offset, log.files, log.open_files, log.config, now_ms)
        )
        log.epochs.clear()
        log.epochs.flush()
        for snapshot in sorted(log.snapshots.offsets):
            log.snapshots.remove(snapshot)
        log.producers.clear(offset)
    except OSError as error:
        raise log.storage_failed(error) from error
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.restarted(offset)


def remove_segments(log: Log, segments: Iterable[Segment], now_ms: int) -> None:
    """Take segments out of the log and rename their files and snapshots to `.deleted`.

    The log file goes last: a segment whose other files are gone is rebuilt, the other way round
    they would be orphans.
    """
    if log.swapping is not None:
        log.swapping.cancel()
    for segment in segments:
        paths = segment.paths()
        snapshot = log.snapshots.drop(segment.base_offset)
        if snapshot is not None:
            paths.insert(0, snapshot)
        log.segments.remove(segment)
        segment.discard()
        log.remove_later(paths, now_ms)
    log.forget_positions()
