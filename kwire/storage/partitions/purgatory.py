"""The purgatory: a Fetch with too few records waits here for more (`min.bytes`, `max.wait.ms`)."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kwire.storage.partitions.fetch_sessions import FetchSession
    from kwire.storage.partitions.partition import FetchWaiter


class ExpiredRequests:
    """How many requests waited in vain: their time was up first.  Each partition of a Produce
    counts, as in Apache Kafka."""

    __slots__ = ("consumer_fetches", "follower_fetches", "produces", "share_fetches")

    def __init__(self) -> None:
        self.consumer_fetches = 0
        self.follower_fetches = 0
        self.produces = 0
        self.share_fetches = 0


class ParkedFetch:
    """A Fetch that waits for records in its partitions; a `FetchWaiter`.

    It counts the bytes that arrive, and wakes its task once they may be enough.  The task then
    reads again.  If there is not enough (records of an open transaction arrive but cannot be read),
    the task waits again.  Waiting costs one set entry for each partition, and an arrival costs one
    subtraction, so that consumers at the end of a hundred partitions stay cheap, and so do the
    producers that write to them.
    """

    __slots__ = ("_event", "_missing_bytes", "_session", "_waiters", "changed")

    def __init__(
        self, waiters: Iterable[set[FetchWaiter]], session: FetchSession | None = None
    ) -> None:
        """`waiters` has the `fetch_waiters` or `replica_waiters` of each partition to wait for.

        A request in a `session` also waits for the partitions that the session watches.
        """
        self._waiters = list(waiters)
        self._session = session
        self._missing_bytes = 0
        self._event = trio.Event()
        self.changed = False
        """Whether a partition was deleted, moved or got a new epoch: the response cannot wait."""

    def __enter__(self) -> ParkedFetch:
        for waiters in self._waiters:
            waiters.add(self)
        if self._session is not None:
            self._session.parked.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop waiting in all partitions."""
        for waiters in self._waiters:
            waiters.discard(self)
        if self._session is not None:
            self._session.parked.discard(self)

    def join(self, waiters: set[FetchWaiter]) -> None:
        """Wait for records in one more partition, whose waiters these are."""
        if self not in waiters:
            waiters.add(self)
            self._waiters.append(waiters)

    def data_arrived(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._event.set()

    def partition_changed(self) -> None:
        self.changed = True
        self._event.set()

    async def arrival(self, missing_bytes: int) -> None:
        """Return once `missing_bytes` have arrived since this call, or a partition has changed.

        With 0 or less the next arrival is enough.  Between its read of the partitions and this call
        the task must not let other tasks run, or it misses arrivals.
        """
        if self.changed:
            return
        self._missing_bytes = missing_bytes
        self._event = trio.Event()
        await self._event.wait()
