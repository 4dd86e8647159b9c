"""Calls of the blocking client, in threads.

`kwire.client` blocks, and a Cluster belongs to one thread at a time.  `ClusterPool` has a bounded
number of threads, and keeps the Clusters that are not in use, with their connections.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError, RequestTimedOut

T = TypeVar("T")

THREADS_MAX: Final = 16
"""Calls at the same time.  Others wait for their turn, within their own timeout."""
CLUSTERS_KEPT_MAX: Final = 8
"""Clusters without work that keep their connections."""
TIMEOUT_S: Final = 15.0
"""How long a page waits for a call.  People reload a page that takes longer."""
REQUEST_TIMEOUT_S: Final = 10.0
"""How long a thread waits for a response.  It is shorter, so that threads of pages that nobody
waits for end soon."""
SURVEY_TIMEOUT_S: Final = 5.0
"""How long a broker has to answer when all are asked.  A broker that hangs then delays a page, and
does not hide what the others answer."""
CACHED_MAX: Final = 200
"""Results that are kept at the same time."""
FRESH_S: Final = 1.5
"""How old a kept result may be, unless the caller says otherwise."""


@dataclass
class Kept:
    """A result that is kept, or the wait for one."""

    done: trio.Event
    result: Any = None
    taken_at: float = -1.0
    """The time on the clock of `time.monotonic`; -1 while there is no result."""


class ClusterPool:
    """Clusters for calls in threads, and results that are kept for a moment."""

    def __init__(
        self, connect: Callable[[], Cluster], *, threads: int = THREADS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`connect` makes a Cluster; it need not be connected.  `clock` is in seconds."""
        self.connect = connect
        self._clock = clock
        self._limiter = trio.CapacityLimiter(threads)
        self._lock = threading.Lock()
        self._idle: list[Cluster] = []
        self._is_closed = False
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def close(self) -> None:
        """Close the Clusters that are not in use, and the others when their calls end."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for cluster in idle:
            cluster.close()

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """A Cluster for this thread alone.

        It is kept afterwards, unless an error other than the cluster's own left it in the middle
        of a response.
        """
        with self._lock:
            cluster = self._idle.pop() if self._idle else None
        cluster = cluster or self.connect()
        is_whole = False
        try:
            yield cluster
            is_whole = True
        except ClientError:
            is_whole = True
            raise
        finally:
            # Topics may be deleted and created again before the next call.
            cluster.topics.clear()
            with self._lock:
                is_kept = is_whole and not self._is_closed and len(self._idle) < CLUSTERS_KEPT_MAX
                if is_kept:
                    self._idle.append(cluster)
            if not is_kept:
                cluster.close()

    async def ask(
        self, call: Callable[..., T], *arguments: object, timeout_s: float = TIMEOUT_S
    ) -> T:
        """The result of `call(cluster, *arguments)`, which runs in a thread.

        Raises its errors, and RequestTimedOut after `timeout_s`; then the thread ends by itself.
        """

        def run() -> T:
            with self.cluster() as cluster:
                return call(cluster, *arguments)

        with trio.move_on_after(timeout_s):
            return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._limiter)
        raise RequestTimedOut(f"the cluster did not answer in {timeout_s:g} s")

    async def cached(
        self, call: Callable[..., T], *arguments: Hashable, fresh_s: float = FRESH_S
    ) -> T:
        """As `ask`, but a result that is at most `fresh_s` old is given again.

        Pages that want the same at the same time share one call.  Errors are not kept.
        """
        key = (call, *arguments)
        while (kept := self._kept.get(key)) is not None:
            if kept.taken_at < 0:
                await kept.done.wait()
                continue
            if self._clock() - kept.taken_at <= fresh_s:
                self._kept.move_to_end(key)
                return cast(T, kept.result)
            del self._kept[key]
        mine = self._kept[key] = Kept(trio.Event())
        try:
            mine.result = await self.ask(call, *arguments)
            mine.taken_at = self._clock()
            return cast(T, mine.result)
        finally:
            if mine.taken_at < 0 and self._kept.get(key) is mine:
                del self._kept[key]
            mine.done.set()
            self._forget_oldest()

    def forget_results(self) -> None:
        """Drop what is kept, after a change of the cluster."""
        for key in [key for key, kept in self._kept.items() if kept.taken_at >= 0]:
            del self._kept[key]

    def _forget_oldest(self) -> None:
        """Drop the results that were used least recently, past CACHED_MAX."""
        over = len(self._kept) - CACHED_MAX
        for key in [key for key, kept in self._kept.items() if kept.taken_at >= 0][: max(0, over)]:
            del self._kept[key]
