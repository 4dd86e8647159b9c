"""Writes the markers that end a transaction into its partitions, and tells when all are there.

What the coordinator has decided happens, however long it takes: a partition that cannot be written
now is tried again, and after a restart the coordinator hands in again what was not finished.  Only
partitions that exist no more are given up, as Apache Kafka does.

A transaction of few partitions is ended at once, so that its producer's next one never meets it.
Others are written in slices, in turn, so that neither connections nor small transactions wait long.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Protocol

from kwire.broker.timers import Timer, Timers
from kwire.codecs.errors import ErrorCode
from kwire.txn.effects import Markers

log = logging.getLogger("kwire.coordinators.markers")

AT_ONCE = 64
"""Markers written before it is the turn of others: 2 ms of work, at 30 us measured for each."""

RETRY_MS, RETRY_MS_MAX = 100, 1_000
"""Until partitions are tried again: a moment for an election, longer for what lasts longer."""

Settle = Callable[[str, int, ErrorCode], None]
"""Is told later what came of the marker in a partition: topic, number, error or NONE."""

Write = Callable[[str, int], ErrorCode | None]
"""Writes a marker into a partition: NONE once it is committed, an error if it cannot be written,
None where that is to be told later."""


class Destinations(Protocol):
    """How markers get to the leaders of partitions."""

    def exists(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition in the cluster."""

    def writer(self, markers: Markers, settle: Settle) -> Write:
        """What writes some of the markers, from now; `settle` is told what is not known at once."""


class _Job:
    """The markers of one transaction on their way."""

    __slots__ = ("failed", "markers", "places", "remaining", "retry_ms", "under_way")

    def __init__(self, markers: Markers) -> None:
        self.markers = markers
        self.places: Iterator[tuple[str, int]] = (
            (topic, index) for topic, indexes in markers.partitions.items() for index in indexes
        )
        """What is still to be written."""
        self.remaining = sum(len(indexes) for indexes in markers.partitions.values())
        self.failed: list[tuple[str, int]] = []
        """What is to be tried again, in `retry_ms`."""
        self.retry_ms = RETRY_MS
        self.under_way = 1
        """Markers that were not settled, and one as long as `places` are not all written."""

    def is_for(self, markers: Markers) -> bool:
        """Whether it writes these; a shard that was taken up anew has prepared others like them."""
        return self.markers == markers and self.markers.prepared is markers.prepared


class MarkerSender:
    """See the module.

    It is the outbox of the transaction shards: they resolve it with Markers once these are
    committed.  `written(markers)` is called when all are there; what it returns is whether the
    transaction is complete now, otherwise it is called again some time later.
    """

    def __init__(
        self,
        destinations: Destinations,
        written: Callable[[Markers], bool],
        lost: Callable[[], None],
        timers: Timers,
    ) -> None:
        """`lost` is called some time after a shard could not commit Markers: look for them."""
        self._destinations = destinations
        self._written = written
        self._lost = lost
        self._timers = timers
        self._jobs: dict[str, _Job] = {}
        """By transactional id; a job that is not here any longer has been dropped."""
        self._queue: deque[_Job] = deque()
        self._slice = Timer(timers, math.inf, self._write_slice)
        self.at_once = False
        """Whether what comes in now is a client's request, and not one of many after a restart."""

    # -- a ticket of the shards

    def resolve(self, markers: Markers | None) -> None:
        """The end of a transaction is committed; None: decided, but not committed in time."""
        if markers is None:
            self._timers.after(RETRY_MS, self._lost)
            return
        known = self._jobs.get(markers.transactional_id)
        if known is not None and known.is_for(markers):
            return
        job = self._jobs[markers.transactional_id] = _Job(markers)
        at_once = self.at_once and job.remaining <= AT_ONCE
        if not (at_once and self._advance(job)):
            self._enqueue(job)

    def refuse(self, error: ErrorCode) -> Markers | None:
        """What `resolve` is given when the decision could not be committed."""
        log.debug("markers are kept back: %s", error.name)
        return None

    def drop(self, concerns: Callable[[str], bool]) -> None:
        """Forget the transactional ids that `concerns` is true of: others end them now."""
        for transactional_id in [each for each in self._jobs if concerns(each)]:
            del self._jobs[transactional_id]

    # -- writing

    def _enqueue(self, job: _Job) -> None:
        self._queue.append(job)
        self._slice.move(self._timers.now_ms())

    def _write_slice(self) -> None:
        """Write some markers of the first job; others have their turn before it goes on."""
        job = self._queue.popleft()
        if self._is_current(job) and not self._advance(job):
            self._queue.append(job)
        if self._queue:
            self._slice.move(self._timers.now_ms())

    def _advance(self, job: _Job) -> bool:
        """Write some of a job's markers; whether those were the last."""
        write = self._destinations.writer(job.markers, partial(self._settle, job))
        for topic, index in islice(job.places, AT_ONCE):
            job.remaining -= 1
            error = write(topic, index)
            if error is None:
                job.under_way += 1
            elif error is not ErrorCode.NONE:
                self._fail(job, topic, index, error)
        if job.remaining:
            return False
        self._settled(job)
        return True

    def _settle(self, job: _Job, topic: str, index: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._fail(job, topic, index, error)
        self._settled(job)

    def _fail(self, job: _Job, topic: str, index: int, error: ErrorCode) -> None:
        transactional_id = job.markers.transactional_id
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # Another coordinator has taken over this transactional id, and ends its transaction.
            log.warning("%s-%d: a newer coordinator ends %s", topic, index, transactional_id)
            if self._is_current(job):
                del self._jobs[transactional_id]
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH:
            log.warning("%s-%d: %s has ended before", topic, index, transactional_id)
        elif error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            log.warning("%s-%d: its format knows no transactions", topic, index)
        elif self._destinations.exists(topic, index):
            log.debug("%s-%d cannot be written now: %s", topic, index, error.name)
            job.failed.append((topic, index))
        else:
            log.info("%s-%d exists no more: its transaction needs no end", topic, index)

    def _settled(self, job: _Job) -> None:
        job.under_way -= 1
        if job.under_way or not self._is_current(job):
            return
        if not job.failed:
            self._complete(job)
            return
        job.places, job.remaining = iter(job.failed), len(job.failed)
        job.failed, job.under_way = [], 1
        self._timers.after(job.retry_ms, partial(self._enqueue, job))
        job.retry_ms = min(2 * job.retry_ms, RETRY_MS_MAX)

    def _complete(self, job: _Job) -> None:
        if not self._is_current(job):
            return
        if self._written(job.markers):
            del self._jobs[job.markers.transactional_id]
        else:
            self._timers.after(RETRY_MS, partial(self._complete, job))

    def _is_current(self, job: _Job) -> bool:
        return self._jobs.get(job.markers.transactional_id) is job
