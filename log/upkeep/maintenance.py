"""The background work on a broker's logs: retention, removals, flushes and checkpoints.

`Maintenance.due` runs on the loop, decides which work is due, and returns jobs for a thread.  It is
cheap enough to be called every second: it visits only logs that have changed, and logs with work at
a later time (files to remove, a flush by time).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.config import LONG_MAX
from kwire.log.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.directory.shortage import passes
from kwire.log.error import LogError
from kwire.log.upkeep.job import Job
from kwire.log.upkeep.retention import delete_expired_segments

if TYPE_CHECKING:
    from kwire.log.directory.files import Files
    from kwire.log.directory.log_dir import LogDir
    from kwire.log.directory.log_dirs import DeletedFolder, LogDirs
    from kwire.log.log import Log
    from kwire.log.upkeep.flush import Flush

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of each kind of work, in ms; the names are those of Kafka's broker configs."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_check_interval_ms: int = 600_000


_CHECKPOINTS = {
    "log_flush_offset_checkpoint_interval_ms": RECOVERY_POINTS,
    "log_flush_start_offset_checkpoint_interval_ms": LOG_START_OFFSETS,
    "replica_high_watermark_checkpoint_interval_ms": HIGH_WATERMARKS,
}
"""The checkpoints by the name of their interval; the cleaner's is written after each cleaning."""
LINES_AT_ONCE = 500
"""Lines of a checkpoint that are collected before other tasks run, half a millisecond of work."""

_OF_ALL_LOGS = frozenset(_CHECKPOINTS.values())


class Maintenance:
    """Knows when each kind of work was done last, and which work is in a thread now."""

    def __init__(self, dirs: LogDirs, intervals: Intervals, now_ms: int) -> None:
        """Prepare the work on the logs of `dirs`; the first round is one interval after
        `now_ms`."""
        self._dirs = dirs
        self._intervals = intervals
        # The first round is one interval after the start; Kafka's is 30 s after it.
        self._done_ms = dict.fromkeys(Intervals.__slots__, now_ms)
        self._flushing: set[int] = set()
        self._writing: set[Path] = set()
        self.deleted: list[DeletedFolder] = []
        self.renamed_in: set[Path] = set()
        """Directories with folders of deleted partitions whose new names are not durable yet."""
        self._awaited: dict[Log, None] = {}
        """Logs with work at a later time: each round visits them."""
        self._stale = set(_OF_ALL_LOGS)
        """Checkpoints whose content may be out of date."""
        self.cleaner_offsets_changed = False
        self.high_watermark_of: Callable[[Log], int] = _log_end_offset

    def _is_time(self, name: str, now_ms: int) -> bool:
        """Return whether the interval `name` has passed; if so, the next one begins."""
        interval: int = getattr(self._intervals, name)
        if now_ms - self._done_ms[name] < interval:
            return False
        self._done_ms[name] = now_ms
        return True

    def due(self, now_ms: int, high_watermark_of: Callable[[Log], int]) -> list[Job]:
        """Do the due work that never blocks; returns jobs for the rest."""
        if self._is_time("log_retention_check_interval_ms", now_ms):
            for log in list(self._dirs.logs.values()):
                _guarded(log, partial(_retain, log, now_ms, high_watermark_of(log)))
        if self._is_time("producer_id_expiration_check_interval_ms", now_ms):
            for log in self._dirs.logs.values():
                log.producers.remove_expired(now_ms)
        logs = self._to_look_at()
        jobs = self._new_names() + self._removals(logs, now_ms)
        for log in logs:
            if _must_flush(log, now_ms) and (job := self.flush_job(log, now_ms)) is not None:
                jobs.append(job)
            if _has_more_to_come(log, now_ms):
                self._awaited[log] = None
        self.high_watermark_of = high_watermark_of
        return jobs + self._checkpoints(now_ms)

    def _to_look_at(self) -> list[Log]:
        """Return the served logs that have changed, or have work at a later time."""
        changed, served = self._dirs.changed, self._dirs.logs
        if changed:
            self._stale |= _OF_ALL_LOGS
        logs = changed | self._awaited
        changed.clear()
        self._awaited.clear()
        return [log for log in logs if served.get((log.topic, log.partition)) is log]

    # Flushing

    def flush_job(self, log: Log, now_ms: int) -> Job | None:
        """Return a job that flushes a log; None if nothing is to flush, or a flush is under way."""
        if id(log) in self._flushing or log.offline:
            return None
        try:
            flush = log.prepare_flush(now_ms)
        except LogError:
            return None
        if flush is None:
            return None
        self._flushing.add(id(log))
        return Job(f"flush {log!r}", flush.run, partial(self._flushed, log, flush))

    def _flushed(self, log: Log, flush: Flush, _: OSError | None) -> None:
        """Note the end of a flush in the log, unless the log is offline."""
        self._flushing.discard(id(log))
        if log.offline:
            return  # it was deleted meanwhile, so its folder has another name; or it has failed
        _guarded(log, partial(log.flushed, flush))

    # Removing

    def _new_names(self) -> list[Job]:
        """Return jobs that make the new names of deleted partitions' folders durable."""
        renamed_in, self.renamed_in = self.renamed_in, set()
        return [
            Job(f"fsync {each.path}", each.sync_names, partial(self._named, each))
            for each in self._dirs.online_dirs
            if each.path in renamed_in
        ]

    def _named(self, directory: LogDir, error: OSError | None) -> None:
        if error is not None:
            self._dirs.dir_failed(directory, error)

    def _removals(self, logs: Iterable[Log], now_ms: int) -> list[Job]:
        """Return jobs that remove the files and folders whose delay has passed."""
        files = self._dirs.files
        jobs = []
        for log in logs:
            paths = log.storage.take_due(now_ms)
            if paths:
                jobs.append(Job(f"remove segments of {log!r}", partial(_remove, files, paths)))
        due = [folder for folder in self.deleted if folder.due_ms <= now_ms]
        self.deleted = [folder for folder in self.deleted if folder.due_ms > now_ms]
        jobs += [
            Job(f"remove {folder.path}", partial(files.remove_tree, folder.path)) for folder in due
        ]
        return jobs

    # Checkpoints

    def recovery_point_checkpoints(self, paths: Collection[Path]) -> list[Job]:
        """Return jobs that write the present recovery points of these directories, even if a write
        is running.
        """
        jobs = []
        for directory in self._dirs.online_dirs:
            if directory.path in paths:
                jobs.append(job := self._checkpoint(directory, RECOVERY_POINTS))
                for _ in job.steps:
                    pass
        return jobs

    def folder_job(self, what: str, path: Path, work: Callable[[], None]) -> Job:
        """Return a job on a partition's folder at `path`; if it fails, the log directory goes
        offline.
        """

        def finish(error: OSError | None) -> None:
            for directory in list(self._dirs.online_dirs):
                if error is not None and directory.path == path.parent:
                    self._dirs.dir_failed(directory, error)

        return Job(what, work, finish)

    def _checkpoints(self, now_ms: int) -> list[Job]:
        """Return jobs for the checkpoints that are due, and those with lines for departed logs.

        A checkpoint that is being written is left to a later round.
        """
        due = {
            name
            for interval, name in _CHECKPOINTS.items()
            if name in self._stale and self._is_time(interval, now_ms)
        }
        self._stale -= due
        jobs = []
        cleaned, self.cleaner_offsets_changed = self.cleaner_offsets_changed, False
        if cleaned:
            due.add(CLEANER_OFFSETS)
        for directory in self._dirs.online_dirs:
            for name in sorted(due.union(directory.outdated())):
                if directory.path / name not in self._writing:
                    jobs.append(self._checkpoint(directory, name))
                elif name == CLEANER_OFFSETS:
                    self.cleaner_offsets_changed = cleaned
                else:
                    self._stale.add(name)
        return jobs

    def _checkpoint(self, directory: LogDir, name: str) -> Job:
        """Return a job that writes one checkpoint of the directory."""
        path = directory.path / name
        self._writing.add(path)
        # The writer has its number before the lines: a log that leaves while they are collected
        # departs later than they count as made.
        lines: dict[TopicPartition, int] = {}
        work = directory.checkpoint_writer(name, lines)
        steps = self._collect(directory, name, lines)
        return Job(f"write {path}", work, partial(self._written, directory, path), steps)

    def lines(self, directory: LogDir, name: str) -> dict[TopicPartition, int]:
        """Return the content of a checkpoint for the logs in `directory`."""
        lines: dict[TopicPartition, int] = {}
        for _ in self._collect(directory, name, lines):
            pass
        return lines

    def _collect(
        self, directory: LogDir, name: str, lines: dict[TopicPartition, int]
    ) -> Iterator[None]:
        """Add the content of a checkpoint to `lines`, in steps."""
        for count, log in enumerate(self._dirs.logs_in(directory), start=1):
            offset = self._line(log, name)
            if offset is not None:
                lines[log.topic, log.partition] = offset
            if count % LINES_AT_ONCE == 0:
                yield

    def outdated_checkpoints(self, keys: Iterable[TopicPartition]) -> list[Job]:
        """Return jobs that write the checkpoints with lines of earlier logs of these partitions.

        With them done, `make_place` has nothing to write.
        """
        keys = list(keys)
        return [
            self._checkpoint(directory, name)
            for directory in self._dirs.online_dirs
            for name in dict.fromkeys(name for key in keys for name in directory.outdated(key))
        ]

    def _line(self, log: Log, name: str) -> int | None:
        """Return the offset of a log for the checkpoint `name`; None for no line."""
        if name == RECOVERY_POINTS:
            return log.recovery_point
        if name == HIGH_WATERMARKS:
            return self.high_watermark_of(log)
        return start_offset_line(log) if name == LOG_START_OFFSETS else log.first_dirty_offset

    def make_place(self, directory: LogDir, key: TopicPartition, log: Log | None = None) -> None:
        """Remove lines of an earlier log of that name from the checkpoints of `directory`.

        With `log`, which will be served in `directory`, also write its log start offset.  It blocks
        if there is something to write.  Raises OSError.
        """
        for name in directory.outdated(key):
            directory.write_checkpoint(name, self.lines(directory, name))
        start = None if log is None else start_offset_line(log)
        if start is not None:
            lines = self.lines(directory, LOG_START_OFFSETS)
            directory.write_checkpoint(LOG_START_OFFSETS, {**lines, key: start})

    def _written(self, directory: LogDir, path: Path, error: OSError | None) -> None:
        """Handle the end of a checkpoint's write: after a lack of space, try again later.

        Any other error takes the directory offline.
        """
        self._writing.discard(path)
        if error is None:
            return
        if passes(error):
            _logger.warning("Cannot write %s now: %s. Trying again later.", path, error)
            self._stale.add(path.name)
        else:
            self._dirs.dir_failed(directory, error)


def _retain(log: Log, now_ms: int, high_watermark: int) -> None:
    if log.rolling.roll_if_due(log.log_end_offset, now_ms):
        log.upkeep[log] = None
    delete_expired_segments(log, now_ms, high_watermark)


def _log_end_offset(log: Log) -> int:
    return log.log_end_offset


def start_offset_line(log: Log) -> int | None:
    """Return the log start offset for the checkpoint; None if the first segment begins there, as in
    Kafka.

    It is never above the recovery point: the loader takes a line behind the end of a log for that
    of another log.
    """
    offset = min(log.log_start_offset, log.recovery_point)
    return offset if offset > log.segments.first.base_offset else None


def _must_flush(log: Log, now_ms: int) -> bool:
    """Return whether a log has to be flushed: a rolled segment once, the active one by `flush.ms`.

    A log start offset above the recovery point also needs a flush: see `start_offset_line`.
    """
    durable = log.recovery_point
    if log.log_end_offset <= durable:
        return False
    rolled = durable < log.segments.active.base_offset
    deleted = durable < log.log_start_offset
    return rolled or deleted or now_ms - log.durability.last_flush_ms >= log.config.flush_ms


def _has_more_to_come(log: Log, now_ms: int) -> bool:
    """Whether a log will need work later, even if it does not change."""
    by_time = log.config.flush_ms < LONG_MAX and log.log_end_offset > log.recovery_point
    return bool(log.storage.removals) or by_time or _must_flush(log, now_ms)


def _remove(files: Files, paths: list[Path]) -> None:
    for path in paths:
        files.remove(path)


def _guarded(log: Log, step: Callable[[], object]) -> None:
    """Run a step on one log.  Its failure must not stop the work on other logs."""
    try:
        step()
    except LogError as error:
        _logger.warning("%r: %s", log, error)
