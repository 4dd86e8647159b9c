"""Writes the markers that end a transaction to its partitions, and reports when all are written.

A decided transaction is always ended, however long that takes: partitions that cannot be written
are retried, and after a restart the coordinator submits the unfinished markers again.  Only
partitions that no longer exist are skipped, as in Apache Kafka.

A transaction with few partitions is ended before the reply to its producer is sent, so that the
producer's next transaction does not get CONCURRENT_TRANSACTIONS.  Those that are ended by requests
which the broker serves together share their writes: each partition is written once
(kwire.broker.shared_work).  Larger ones are written in slices, in turn, so that connections and
small transactions do not wait long.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from kwire.broker.shared_work import SharedWork
from kwire.broker.timers import Timer, Timers
from kwire.codecs.errors import ErrorCode
from kwire.txn.effects import Markers

log = logging.getLogger("kwire.coordinators.markers")

AT_ONCE = 64
"""Markers of one transaction written in one slice: 2 ms of work at 30 us each (measured)."""

RETRY_MS, RETRY_MS_MAX = 100, 1_000
"""Pause before failed partitions are retried; it doubles with each retry up to the maximum.
An election takes about the first pause."""

Settle = Callable[[str, int, ErrorCode], None]
"""Receives the result of a marker that was not known at once: topic, partition, error or NONE."""

Write = Callable[[str, int], ErrorCode | None]
"""Writes a marker to a partition: NONE once it is committed, an error if it cannot be written,
None if `Settle` gets the result later."""


class Destinations(Protocol):
    """The way of markers to partition leaders, here and on other brokers."""

    def write(
        self, topic: str, partition: int, writers: Sequence[Write]
    ) -> Sequence[ErrorCode | None]:
        """Call the writers of several transactions for one partition; their results in order."""

    def exists(self, topic: str, partition: int) -> bool:
        """Whether the partition exists in the cluster."""

    def writer(self, markers: Markers, settle: Settle) -> Write:
        """A function that writes `markers` to one partition after another; valid for one slice.

        `settle` gets the results that the function does not return.
        """


class _Job:
    """The markers of one transaction, while they are written."""

    __slots__ = ("failed", "markers", "pending", "remaining", "retry_ms", "unsettled")

    def __init__(self, markers: Markers) -> None:
        """No marker is written yet."""
        self.markers = markers
        self.pending: Iterator[tuple[str, int]] = (
            (topic, index) for topic, indexes in markers.partitions.items() for index in indexes
        )
        """Partitions that no marker was written to yet."""
        self.remaining = sum(len(indexes) for indexes in markers.partitions.values())
        self.failed: list[tuple[str, int]] = []
        """Partitions to retry after `retry_ms`."""
        self.retry_ms = RETRY_MS
        self.unsettled = 1
        """Markers without a result, plus one while `pending` is not exhausted."""

    def is_for(self, markers: Markers) -> bool:
        """Whether the job writes exactly these markers, decided by the same shard.

        A shard that was loaded again has equal markers from another `prepared` transaction.
        """
        return self.markers == markers and self.markers.prepared is markers.prepared


class MarkerSender:
    """See the module.

    The sender is the outbox of the transaction shards: a ticket that they resolve with Markers once
    the decision is committed.  It calls `written(markers)` when all markers are written.  If that
    returns False, the transaction is not complete and the call is repeated after RETRY_MS.
    """

    def __init__(
        self,
        destinations: Destinations,
        written: Callable[[Markers], bool],
        lost: Callable[[], None],
        timers: Timers,
        work: SharedWork,
    ) -> None:
        """`lost` is called RETRY_MS after a shard could not commit a decision: it submits the
        markers again if the decision is in the log after all."""
        self._destinations = destinations
        self._written = written
        self._lost = lost
        self._timers = timers
        self._work = work
        self._together: list[_Job] = []
        """Jobs of the requests that are being served together."""
        self._jobs: dict[str, _Job] = {}
        """By transactional id; a job that is not in here any more was dropped."""
        self._queue: deque[_Job] = deque()
        self._slice = Timer(timers, math.inf, self._write_slice)
        self.at_once = False
        """True while a client's request is decided: small transactions are ended in that call.
        False after a load, when many markers may arrive at once."""

    # -- the ticket of the shards

    def resolve(self, markers: Markers | None) -> None:
        """Writes the markers of a committed decision.

        None: the decision was not committed in time.
        """
        if markers is None:
            self._timers.after(RETRY_MS, self._lost)
            return
        current = self._jobs.get(markers.transactional_id)
        if current is not None and current.is_for(markers):
            return
        job = self._jobs[markers.transactional_id] = _Job(markers)
        if not self.at_once or job.remaining > AT_ONCE:
            self._enqueue(job)
        elif not self._work.is_open:
            self._advance([job])
        else:
            if not self._together:
                self._work.add(self._write_together)
            self._together.append(job)

    def refuse(self, error: ErrorCode) -> Markers | None:
        """The value for `resolve` if the decision could not be committed."""
        log.debug("Markers are not sent yet: their decision is not committed (%s).", error.name)
        return None

    def drop(self, concerns: Callable[[str], bool]) -> None:
        """Drop jobs of transactional ids for which `concerns` is true: another broker ends them."""
        for transactional_id in [key for key in self._jobs if concerns(key)]:
            del self._jobs[transactional_id]

    # -- writing

    def _enqueue(self, job: _Job) -> None:
        self._queue.append(job)
        self._slice.move(self._timers.now_ms())

    def _write_slice(self) -> None:
        """Writes some markers of the first job, then puts it at the end of the queue."""
        job = self._queue.popleft()
        if self._is_current(job):
            self._queue += self._advance([job])
        if self._queue:
            self._slice.move(self._timers.now_ms())

    def _write_together(self) -> None:
        """Writes the markers of the requests that were served together."""
        jobs, self._together = self._together, []
        self._advance([job for job in jobs if self._is_current(job)])

    def _advance(self, jobs: Sequence[_Job]) -> list[_Job]:
        """Writes up to AT_ONCE markers of each job, those for one partition together.

        Returns the jobs that have more markers.
        """
        writers = [
            self._destinations.writer(job.markers, partial(self._settle, job)) for job in jobs
        ]
        numbers_of: dict[tuple[str, int], list[int]] = {}
        for number, job in enumerate(jobs):
            for place in islice(job.pending, AT_ONCE):
                job.remaining -= 1
                numbers_of.setdefault(place, []).append(number)
        for (topic, index), numbers in numbers_of.items():
            together = [writers[number] for number in numbers]
            results = self._destinations.write(topic, index, together)
            for number, error in zip(numbers, results, strict=True):
                if error is None:
                    jobs[number].unsettled += 1
                elif error is not ErrorCode.NONE:
                    self._fail(jobs[number], topic, index, error)
        # Before any job is settled: a job with failed markers gets those as its remaining ones.
        unfinished = [job for job in jobs if job.remaining]
        for job in [job for job in jobs if not job.remaining]:
            self._settled(job)
        return unfinished

    def _settle(self, job: _Job, topic: str, index: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._fail(job, topic, index, error)
        self._settled(job)

    def _fail(self, job: _Job, topic: str, index: int, error: ErrorCode) -> None:
        """Decides what follows from a marker that could not be written.

        A newer coordinator: the whole job is dropped.  A partition that needs no marker any more is
        skipped.  Any other error: the partition is tried again later.
        """
        transactional_id = job.markers.transactional_id
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # Another coordinator has taken over this transactional id and ends its transaction.
            log.warning(
                "Stopped writing markers of %s: partition %s-%d has one of a newer coordinator.",
                transactional_id,
                topic,
                index,
            )
            if self._is_current(job):
                del self._jobs[transactional_id]
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH:
            log.warning(
                "Skipped partition %s-%d: a newer producer epoch has ended the transaction of %s"
                " there.",
                topic,
                index,
                transactional_id,
            )
        elif error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            log.warning(
                "Skipped partition %s-%d: its message format has no transactions.", topic, index
            )
        elif self._destinations.exists(topic, index):
            log.debug(
                "Cannot write a marker to %s-%d: %s. It is retried.", topic, index, error.name
            )
            job.failed.append((topic, index))
        else:
            log.info("Skipped partition %s-%d: it no longer exists.", topic, index)

    def _settled(self, job: _Job) -> None:
        """Counts one result of the job; after the last one, completes or retries it.

        The delay before a retry doubles up to RETRY_MS_MAX.
        """
        job.unsettled -= 1
        if job.unsettled or not self._is_current(job):
            return
        if not job.failed:
            self._complete(job)
            return
        job.pending, job.remaining = iter(job.failed), len(job.failed)
        # 1 stands for `pending`, which is not exhausted any more.
        job.failed, job.unsettled = [], 1
        self._timers.after(job.retry_ms, partial(self._enqueue, job))
        job.retry_ms = min(2 * job.retry_ms, RETRY_MS_MAX)

    def _complete(self, job: _Job) -> None:
        """Reports that all markers are written; repeats it until the report is accepted."""
        if not self._is_current(job):
            return
        if self._written(job.markers):
            del self._jobs[job.markers.transactional_id]
        else:
            self._timers.after(RETRY_MS, partial(self._complete, job))

    def _is_current(self, job: _Job) -> bool:
        return self._jobs.get(job.markers.transactional_id) is job
