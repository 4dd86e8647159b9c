"""One round: the cleaning of one log, as a sequence of jobs.

Each job waits in a thread for one answer of the worker.  Between jobs the loop swaps cleaned
segments in.  If the log is truncated or deleted, or loses segments meanwhile, the round is dropped;
segments that were swapped in before remain valid.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kwire.codecs.batches import CorruptBatch
from kwire.log.compaction.swap import Swap, remove_files
from kwire.log.compaction.task import Answer, CleaningTask, GroupCleaned, PassDone, PassFailed
from kwire.log.directory import files as names
from kwire.log.directory.shortage import passes
from kwire.log.reading.lookups import check_txn_index
from kwire.log.upkeep.job import Job

if TYPE_CHECKING:
    from kwire.log.compaction.cleanable import Cleanable
    from kwire.log.compaction.settings import CleanerSettings
    from kwire.log.compaction.worker_process import Worker
    from kwire.log.segment import Segment

_logger = logging.getLogger(__name__)


class Dropped(Exception):
    """The log was changed since the round began."""


class Corrupt(Exception):
    """The log has a batch that cannot be read; another cleaning would fail, too."""


class CleaningRound:
    """One round; after `jobs`, `done_to` is the new first dirty offset, or None if it failed."""

    def __init__(
        self,
        part: Cleanable,
        settings: CleanerSettings,
        start_worker: Callable[[], Worker],
        worker: Worker | None,
        now_ms: int,
    ) -> None:
        """Prepare the round; `worker` is an idle cleaning process, or None to start one.

        `done_to` is the offset up to which the log was cleaned, None before the end. The round ends
        early if the log was truncated since: its generation differs then.
        """
        self.log = part.log
        self.worker = worker
        self.done_to: int | None = None
        self.failure: OSError | Corrupt | None = None
        self._part = part
        self._settings = settings
        self._start_worker = start_worker
        self._now_ms = now_ms
        self._generation = part.log.durability.generation
        self._answer: Answer | None = None
        self._sources: dict[int, Segment] = {}  # of the pass, as far as they are not replaced

    def __repr__(self) -> str:
        return f"Round({self.log!r}, {self._part.first_dirty}..{self._part.upper_bound})"

    def jobs(self) -> Generator[Job, None, None]:
        """Yield the jobs of the round: the caller runs each in a thread, and finishes it on the
        loop.

        A disk error, a dead worker or a corrupt log ends the round, and is in `failure`.
        """
        try:
            end_offset = self._part.upper_bound
            while end_offset > self._part.first_dirty:
                yield from self._pass(self._task(end_offset))
                done = self._answer
                assert isinstance(done, PassDone)
                end_offset = done.first_offset
            self._check()
            self.done_to = self._part.upper_bound
        except Dropped as reason:
            _logger.info("Dropping %r: %s", self, reason)
        except (OSError, Corrupt) as error:
            if self._is_valid() and self._holds(self._sources.values()):
                self.failure = error
            else:
                _logger.info("Dropping %r: %s", self, error)
        finally:
            if self.log.cancel_swap is not None:
                self.log.cancel_swap()

    def _pass(self, task: CleaningTask) -> Iterator[Job]:
        """Yield the jobs of one pass: begin the task, then wait for each answer and handle it.

        Raises the error that the cleaning process reports.
        """
        self._sources = {
            segment.base_offset: segment
            for segment in self.log.segments
            if segment.base_offset < task.end_offset
        }
        yield from self._run("begin cleaning", partial(self._begin, task))
        while True:
            yield from self._run("clean", self._wait)
            answer = self._answer
            if isinstance(answer, PassFailed):
                raise _error_of(answer)
            if isinstance(answer, PassDone):
                self._report(answer)
                return
            assert isinstance(answer, GroupCleaned)
            yield from self._swap(answer, [self._sources.pop(base) for base in answer.sources])

    def _run(self, what: str, work: Callable[[], None]) -> Iterator[Job]:
        """Yield one job, and raise its OSError if it failed. `what` names it in messages."""
        job = Job(f"{what} {self.log!r}", work)
        yield job
        if job.error is not None:
            raise job.error

    def _begin(self, task: CleaningTask) -> None:
        if self.worker is None:
            self.worker = self._start_worker()
        self.worker.begin(task)

    def _wait(self) -> None:
        assert self.worker is not None
        self._answer = self.worker.answer()

    def _swap(self, cleaned: GroupCleaned, sources: list[Segment]) -> Iterator[Job]:
        """Yield the jobs that replace `sources` by the cleaned segment.

        Raises Dropped if the segments went away in the meantime, or if a rename failed. The check
        is repeated after the job, because the loop may have changed the log while the thread did
        the fsync.
        """
        swap = Swap(self.log, cleaned, sources)
        try:
            self._check(sources)
        except Dropped:
            remove_files(self.log, cleaned, names.CLEANED)
            raise
        swap.begin()
        yield from self._run("swap segments of", swap.fsync)
        if swap.cancelled:
            raise Dropped("the segments that it was to clean were removed")
        self._check(sources)
        try:
            swap.complete(self._now_ms)
        except OSError as error:
            self.log.storage.failed(error)
            raise Dropped("its segments could not be swapped") from error
        yield from self._run("swap segments of", swap.fsync)

    # Checks of the log

    def _is_valid(self) -> bool:
        return not self.log.offline and self.log.durability.generation == self._generation

    def _holds(self, segments: Iterable[Segment]) -> bool:
        here = set(map(id, self.log.segments))
        return here.issuperset(map(id, segments))

    def _check(self, sources: Iterable[Segment] = ()) -> None:
        """Raise Dropped if the log has changed so that the round must not go on."""
        if not self._is_valid():
            raise Dropped("the log was cut, deleted or is offline")
        if not self._holds(sources):
            raise Dropped("the segments that it was to clean were removed")

    def _task(self, end_offset: int) -> CleaningTask:
        """Return what the cleaning process has to know for a pass up to `end_offset`.

        It is a copy of the state: the process shares no memory with the broker.
        """
        log, part, config = self.log, self._part, self.log.config
        sources = [s for s in log.segments if s.base_offset < part.upper_bound]
        self._check_indexes(sources)
        return CleaningTask(
            str(log.dir),
            [(s.base_offset, s.size_bytes) for s in sources],
            [s.base_offset for s in log.segments if s.base_offset >= part.upper_bound],
            part.first_dirty,
            end_offset,
            part.upper_bound,
            self._now_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
            [
                (entry.producer_id, entry.last_offset, entry.epoch)
                for entry in log.producers.entries.values()
            ],
            self._settings.map_bytes_max,
            config.record_bytes_max,
            self._settings.read_bytes,
            self._settings.log_cleaner_io_max_bytes_per_second,
        )

    def _check_indexes(self, sources: list[Segment]) -> None:
        """Check the transaction indexes: they decide which records are removed."""
        try:
            for segment in sources:
                check_txn_index(self.log, segment)
        except CorruptBatch as error:
            raise Corrupt(str(error)) from error

    def _report(self, done: PassDone) -> None:
        """Log how many keys and bytes the pass had, and how long it took."""
        _logger.info(
            "cleaned %r from %d on: %d keys; %d bytes read, %d written; %d ms for the keys, "
            "%d ms for the rest",
            self.log,
            done.first_offset,
            done.keys,
            done.bytes_read,
            done.bytes_written,
            done.index_ms,
            done.rewrite_ms,
        )


def _error_of(failed: PassFailed) -> Exception:
    if failed.errno:
        return OSError(failed.errno, failed.reason)
    return Corrupt(failed.reason)


def is_passing(failure: OSError | Corrupt) -> bool:
    """Whether a later try may succeed: a shortage or a dead worker, and no failed disk."""
    if isinstance(failure, FileNotFoundError | ChildProcessError | BrokenPipeError):
        return True
    return isinstance(failure, OSError) and passes(failure)
