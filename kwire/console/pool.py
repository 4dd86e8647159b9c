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
from kwire.console.precedence import PagesFirst

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
"""The most results that are kept."""
FRESH_S: Final = 1.5
"""How old a kept result may be, unless the caller says otherwise."""
AGE_PER_COST: Final = 10
"""A result that took a second is fresh for ten, so that a page takes a tenth of a core at most."""
COSTLY_S: Final = 0.2
USABLE_S: Final = 120.0
"""How old a costly result may be while a new one is on its way."""


@dataclass
class Kept:
    """A result that is kept, or the wait for one."""

    done: trio.Event
    result: Any = None
    taken_at: float = -1.0
    """The time on the clock of `time.monotonic`; -1 while there is no result."""
    cost_s: float = 0.0
    """How long the call took."""
    is_renewed: bool = False
    """Whether a new result is on its way."""


class ClusterPool:
    """Clusters for calls in threads, and results that are kept for a moment."""

    def __init__(
        self, connect: Callable[[], Cluster], *, threads: int = THREADS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`connect` makes a Cluster; it need not be connected.  `clock` is in seconds."""
        self.connect = connect
        self.pages = PagesFirst()
        """The pages that are being made, for which work beside them waits."""
        self._clock = clock
        self.nursery: trio.Nursery | None = None
        """Where costly results are renewed; None if they are not."""
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
        self,
        call: Callable[..., T],
        *arguments: Hashable,
        fresh_s: float = FRESH_S,
        is_large: Callable[[T], bool] | None = None,
    ) -> T:
        """As `ask`, but a result that is fresh is given again.

        It is fresh for `fresh_s`, or AGE_PER_COST times as long as the call took.  A result that
        was costly, or is large, is given for a while longer, and renewed in the background, so that
        only the first page waits.  Pages that want the same at the same time share one call.
        Errors are not kept.
        """
        key = (call, *arguments)
        while (kept := self._kept.get(key)) is not None:
            if kept.taken_at < 0:
                await kept.done.wait()
                continue
            age_s = self._clock() - kept.taken_at
            is_fresh = age_s <= max(fresh_s, AGE_PER_COST * kept.cost_s)
            is_costly = kept.cost_s > COSTLY_S or (is_large is not None and is_large(kept.result))
            is_usable = is_costly and age_s <= USABLE_S and self.nursery is not None
            if is_fresh or is_usable:
                self._kept.move_to_end(key)
                if not is_fresh and not kept.is_renewed and self.nursery is not None:
                    kept.is_renewed = True
                    self.nursery.start_soon(self._renew, key, kept, call, arguments)
                return cast(T, kept.result)
            del self._kept[key]
        mine = self._kept[key] = Kept(trio.Event())
        try:
            await self._fill(mine, call, arguments)
            return cast(T, mine.result)
        finally:
            if mine.taken_at < 0 and self._kept.get(key) is mine:
                del self._kept[key]
            mine.done.set()
            self._forget_oldest()

    async def _fill(
        self, kept: Kept, call: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        """Make the call, and keep its result."""
        start_s = self._clock()
        kept.result = await self.ask(call, *arguments)
        kept.taken_at = self._clock()
        kept.cost_s = kept.taken_at - start_s

    async def _renew(
        self,
        key: Hashable,
        old: Kept,
        call: Callable[..., object],
        arguments: tuple[object, ...],
    ) -> None:
        """Put a new result in the place of an old one.  After an error the next page asks."""
        new = Kept(old.done)
        try:
            await trio.to_thread.run_sync(self.pages.wait, abandon_on_cancel=True)
            await self._fill(new, call, arguments)
        except ClientError:
            if self._kept.get(key) is old:
                del self._kept[key]
            return
        if self._kept.get(key) is old:
            self._kept[key] = new

    def forget_results(self, call: Callable[..., object] | None = None) -> None:
        """Drop what is kept, after a change of the cluster; only results of `call` if given."""
        for key in [key for key, kept in self._kept.items() if kept.taken_at >= 0]:
            if call is None or cast("tuple[object, ...]", key)[0] is call:
                del self._kept[key]

    def _forget_oldest(self) -> None:
        """Drop the results that were used least recently, past CACHED_MAX."""
        over = len(self._kept) - CACHED_MAX
        for key in [key for key, kept in self._kept.items() if kept.taken_at >= 0][: max(0, over)]:
            del self._kept[key]
