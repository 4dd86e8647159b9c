"""Truncation: removes the end of a follower's log that its new leader does not have.

As with appends, a full disk takes no directory offline (`directory/shortage.py`).  The lowered
recovery point is written first.  If the disk has no room for it, the truncation is refused, nothing
has changed, and the follower tries again.  From the first removed segment on, only files that the
log can do without need room: indexes, producer snapshots and leader epochs.  They are written
later, and a start after a crash rebuilds them from the recovery point on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kwire.log.directory.shortage import passes
from kwire.log.producers import replay
from kwire.log.segment import Segment
from kwire.log.upkeep.removal import remove_segments

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile
    from kwire.log.log import Log
    from kwire.log.upkeep.job import Job
    from kwire.log.upkeep.maintenance import Maintenance

_logger = logging.getLogger(__name__)


def jobs(logs: Iterable[tuple[Log, int]], maintenance: Maintenance, now_ms: int) -> Iterator[Job]:
    """Truncate each log to its offset, so that a power cut at any moment leaves a consistent log.

    1. Lower the recovery point on disk: recovery does not check batches below it.
    2. Truncate the logs.
    3. Flush that: otherwise later appends might end up before old segments.

    Apache Kafka truncates first, then writes the checkpoint, and leaves the rest to the file
    system.
    """
    cut = [(log, offset) for log, offset in logs if offset < log.log_end_offset]
    for log, offset in cut:
        log.durability.recovery_point = min(log.recovery_point, offset)
    for job in maintenance.recovery_point_checkpoints({log.dir.parent for log, _ in cut}):
        yield job
        if job.error is not None and passes(job.error):
            raise cut[0][0].storage.refused(job.error) from job.error
    for log, offset in cut:
        truncate_to(log, offset, now_ms)
        try:
            opened = [log.segments.active.open(), log.storage.files.open_folder(log.dir)]
        except OSError as error:
            raise log.storage.failed(error) from error
        work = partial(_make_durable, log.storage.files, opened)
        yield maintenance.folder_job(f"truncate {log!r}", log.dir, work)


def _make_durable(files: Files, opened: list[OpenFile]) -> None:
    for file in opened:
        files.fsync(file.fd)


def truncate_to(log: Log, offset: int, now_ms: int) -> bool:
    """Remove every batch that ends at or after `offset`; False if there was none."""
    log.check_online()
    if offset >= log.log_end_offset:
        # An epoch may have begun here without a record: the new leader does not have it.
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
        end = max(active.next_offset(), min(offset, log.log_end_offset))
        log.log_start_offset = min(log.log_start_offset, offset)
        replay.rebuild(
            log.producers, log.snapshots, log.segments, log.log_start_offset, end, now_ms
        )
        _write_if_there_is_room(log, active.save_indexes, log.epochs.flush, partial(_snapshot, log))
    except OSError as error:
        raise log.storage.failed(error) from error
    log.restarted(end)
    return True


def _snapshot(log: Log) -> None:
    log.snapshots.take(log.producers)


def _write_if_there_is_room(log: Log, *steps: Callable[[], object]) -> None:
    """Run steps that the next roll, flush or close repeats; a shortage is only logged.

    Raises any other OSError.
    """
    for step in steps:
        try:
            step()
        except OSError as error:
            if not passes(error):
                raise
            _logger.warning("Cannot write a file of the truncated %r: %s. Later.", log, error)


def truncate_fully(log: Log, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
    """Remove all segments, and continue with an empty one at `offset`."""
    log.check_online()
    storage = log.storage
    try:
        remove_segments(log, log.segments, now_ms)
        log.segments.add(
            Segment.create(
                storage.dir, offset, storage.files, storage.open_files, log.config, now_ms
            )
        )
        log.epochs.clear()
        _write_if_there_is_room(log, log.epochs.flush)
        for snapshot in sorted(log.snapshots.offsets):
            log.snapshots.remove(snapshot)
        log.producers.clear(offset)
    except OSError as error:
        raise log.storage.failed(error) from error
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.restarted(offset)
