"""Chooses the next log to clean, and handles the result: the part of the cleaner on the loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.batches import CorruptBatch
from kwire.log.compaction import worker_process
from kwire.log.compaction.cleanable import Cleanable, examine
from kwire.log.compaction.round import CleaningRound, Corrupt, is_passing

if TYPE_CHECKING:
    from kwire.log.compaction.settings import CleanerSettings
    from kwire.log.compaction.worker_process import Worker
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.log_dirs import LogDirs
    from kwire.log.log import Log
    from kwire.log.upkeep.maintenance import Maintenance

_logger = logging.getLogger(__name__)

IDLE_MS = 60_000
"""The time after which an idle worker is stopped."""

RETRY_MS_MAX = 3_600_000

NEVER_MS = 1 << 62
"""A time in ms that never comes."""


class Cleaner:
    """Creates cleaning rounds, at most one at a time for each log."""

    def __init__(self, dirs: LogDirs, maintenance: Maintenance) -> None:
        """Clean the logs of `dirs`; `maintenance` writes the checkpoint of the cleaner.

        `start_worker` starts a cleaning process; tests replace it.
        """
        self._dirs = dirs
        self._maintenance = maintenance
        dirs.on_gone = self._forget
        self._busy: dict[TopicPartition, CleaningRound] = {}
        self._idle: list[tuple[int, Worker]] = []
        self._retry: dict[
            TopicPartition, tuple[int, int]
        ] = {}  # by log: when again, after how long a pause
        self.start_worker: Callable[[], Worker] = lambda: worker_process.start(dirs.files)

    def grab(
        self, now_ms: int, settings: CleanerSettings, high_watermark_of: Callable[[Log], int]
    ) -> CleaningRound | None:
        """Return a round over the dirtiest log that is due, or None.  `finished` has to follow."""
        parts = [
            self._examine(log, high_watermark_of(log), now_ms)
            for log in list(self._dirs.logs.values())  # a disk that fails takes some of them away
            if log.config.compact
            and _key(log) not in self._busy
            and self._retry.get(_key(log), (0, 0))[0] <= now_ms
        ]
        due = [part for part in parts if part is not None and part.is_due and not part.log.offline]
        if not due:
            return None
        filthiest = max(due, key=lambda part: part.dirty_ratio)
        worker = self._idle.pop()[1] if self._idle else None
        found = CleaningRound(filthiest, settings, self.start_worker, worker, now_ms)
        self._busy[_key(filthiest.log)] = found
        return found

    def _examine(self, log: Log, high_watermark: int, now_ms: int) -> Cleanable | None:
        """Return how dirty the log is, or None if it cannot be cleaned now.

        A disk error is reported to the log's storage. After a corrupt batch the cleaner gives up on
        this log.
        """
        if log.offline:
            return None
        try:
            return examine(log, high_watermark, now_ms)
        except OSError as error:
            log.storage.refused(error)
        except CorruptBatch as error:
            self._give_up(log, error)
        return None

    def finished(self, done: CleaningRound, now_ms: int, settings: CleanerSettings) -> None:
        """Note the end of a round; maintenance writes the checkpoint."""
        log = done.log
        self._busy.pop(_key(log), None)
        if done.done_to is not None:
            log.first_dirty_offset = done.done_to
            self._maintenance.cleaner_offsets_changed = True
            self._retry.pop(_key(log), None)
            if done.worker is not None:
                self._idle.append((now_ms + IDLE_MS, done.worker))
            return
        if done.worker is not None:
            done.worker.stop()  # it may still be working on the failed task
        if done.failure is not None and self._dirs.logs.get(_key(log)) is log:
            self._failed(done, done.failure, now_ms, settings)

    def _failed(
        self,
        done: CleaningRound,
        failure: OSError | Corrupt,
        now_ms: int,
        settings: CleanerSettings,
    ) -> None:
        """Plan the next try, after a pause that doubles with each failure."""
        if isinstance(failure, Corrupt):
            self._give_up(done.log, failure)
            return
        if not is_passing(failure):
            done.log.storage.failed(failure)
            return
        _, last_pause_ms = self._retry.get(_key(done.log), (0, 0))
        pause_ms = min(max(2 * last_pause_ms, settings.log_cleaner_backoff_ms), RETRY_MS_MAX)
        self._retry[_key(done.log)] = now_ms + pause_ms, pause_ms
        _logger.warning("%r failed, trying again in %d ms: %s", done, pause_ms, failure)

    def _give_up(self, log: Log, error: Exception) -> None:
        """Clean the log no more until the next start, as Kafka marks a partition uncleanable."""
        _logger.error("Cannot clean %r: %s. Not trying again before a restart.", log, error)
        self._retry[_key(log)] = NEVER_MS, 0

    def given_up(self) -> list[TopicPartition]:
        """The logs that are not cleaned before the next start, since a batch is corrupt."""
        return [key for key, (due_ms, _) in self._retry.items() if due_ms == NEVER_MS]

    def _forget(self, key: TopicPartition) -> None:
        """Drop the retry pause of a deleted log: a new log may get its name."""
        self._retry.pop(key, None)

    def take_idle(self, now_ms: int) -> list[Worker]:
        """Remove the workers that were idle for long; the caller stops them, which may block."""
        ended = [worker for due_ms, worker in self._idle if due_ms <= now_ms]
        self._idle = [(due_ms, worker) for due_ms, worker in self._idle if due_ms > now_ms]
        return ended

    def stop(self) -> None:
        """Stop all workers, and drop the rounds under way."""
        for _, worker in self._idle:
            worker.stop()
        for under_way in self._busy.values():
            if under_way.log.cancel_swap is not None:
                under_way.log.cancel_swap()
            if under_way.worker is not None:
                under_way.worker.stop()
        self._idle.clear()


def _key(log: Log) -> TopicPartition:
    return log.topic, log.partition
