"""Which connections have something to read: one epoll for all of them, and one task.

trio's own `wait_readable` is armed anew for each wait and wakes a task for each connection: two
passes through the kernel's and the scheduler's lists for every request.  Here a connection is
registered once and its `readable` is called, a plain function, as long as that can do all there is
to do.  Only a connection that has to wait for something else gets its own task back.
"""

from __future__ import annotations

import select
from collections.abc import Callable

import trio

Readable = Callable[[], bool]
"""Reads and answers; False when its task has to go on."""

Ready = list[tuple[int, int]]
"""What epoll gives: descriptors, and what may be done with each."""

_READY_MAX = 256
"""Connections served between two passes of the scheduler; the others come next, in turn."""

_LOOKS = 32
_LOOKS_A_PASS = 8
"""How often to look for the next request before sleeping, some 50 us in all, and after how many
looks the other tasks get their turn.  A client that waits for each reply sends again within 20 us,
sooner than a sleeping process is woken: its requests take a fifth to nearly half less time so."""

_PASSES_OVER_MAX = 63
"""How often in a row looking is left out at most, after it has been in vain."""


class _Served:
    """One registered connection."""

    __slots__ = ("problem", "readable", "task")

    def __init__(self, readable: Readable, task: trio.lowlevel.Task) -> None:
        self.readable = readable
        self.task = task
        self.problem: Exception | None = None


class ReadySockets:
    """See the module."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._served: dict[int, _Served] = {}

    async def serve(self, descriptor: int, readable: Readable) -> None:
        """Have `readable` called whenever there is something to read, until it returns False.

        What it raises is raised here.
        """
        served = _Served(readable, trio.lowlevel.current_task())
        self._served[descriptor] = served
        self._epoll.register(descriptor, select.EPOLLIN)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._forget(descriptor)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if served.problem is not None:
            raise served.problem

    def _forget(self, descriptor: int) -> None:
        self._epoll.unregister(descriptor)
        del self._served[descriptor]

    async def run(self) -> None:
        """Serve until cancelled."""
        patience = Patience()
        with self._epoll:
            descriptor = self._epoll.fileno()
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                ready = self._epoll.poll(0, _READY_MAX)
                while ready:
                    self._serve_all(ready)
                    if not patience.is_worthwhile():
                        break
                    ready = await self._look_again()
                    patience.learn(rewarded=bool(ready))

    async def _look_again(self) -> Ready:
        """Who has something to read soon."""
        ready: Ready = []
        for look in range(_LOOKS):
            if look % _LOOKS_A_PASS == 0:
                await trio.lowlevel.checkpoint()
            ready = self._epoll.poll(0, _READY_MAX)
            if ready:
                break
        return ready

    def _serve_all(self, ready: Ready) -> None:
        for descriptor, _ in ready:
            served = self._served.get(descriptor)
            if served is None:  # an earlier one of this round had it closed
                continue
            try:
                if served.readable():
                    continue
            except Exception as problem:  # its own task decides what comes of it
                served.problem = problem
            self._forget(descriptor)
            trio.lowlevel.reschedule(served.task)


class Patience:
    """When to look for the next request before sleeping: as long as it pays.

    Each look in vain doubles how many chances are then passed over, so that clients with pauses
    between their requests cost next to nothing; one that is rewarded starts anew.
    """

    __slots__ = ("_pass_over", "_passing")

    def __init__(self) -> None:
        self._pass_over = self._passing = 0

    def is_worthwhile(self) -> bool:
        if self._passing:
            self._passing -= 1
            return False
        return True

    def learn(self, *, rewarded: bool) -> None:
        self._pass_over = 0 if rewarded else min(2 * self._pass_over + 1, _PASSES_OVER_MAX)
        self._passing = self._pass_over


class WaitingSockets:
    """The same by trio's own means, for systems without epoll (macOS)."""

    async def serve(self, descriptor: int, readable: Readable) -> None:
        """As ReadySockets.serve."""
        await trio.lowlevel.wait_readable(descriptor)
        while readable():
            await trio.lowlevel.wait_readable(descriptor)

    async def run(self) -> None:
        """Nothing to do: each connection waits for itself."""


def ready_sockets() -> ReadySockets | WaitingSockets:
    """What serves connections best on this system."""
    return ReadySockets() if hasattr(select, "epoll") else WaitingSockets()
