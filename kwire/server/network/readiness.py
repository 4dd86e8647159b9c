"""Which connections have something to read: one epoll for all of them, and one task.

trio's own `wait_readable` is armed anew for each wait and wakes a task for each connection: two
passes through the kernel's and the scheduler's lists for every request.  Here a connection is
registered once and its `readable` is called, a plain function, as long as that can do all there is
to do.  Only a connection that has to wait for something else gets its own task back.

Timers that are due come before requests, and before them only those that say in time what a timer
would deny: after a stall a session is not ended whose heartbeat already lies in the socket, and
whoever asks about a session that has ended is told so.  Apache Kafka's threads race there.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio

Ready = list[tuple[int, int]]
"""What epoll gives: descriptors, and what may be done with each."""

_READY_MAX = 256
"""Connections served between two passes of the scheduler; the others come next, in turn."""

_TIMELY_MAX = 4096
"""Connections that are looked at for a request that comes before the timers, some 2 us each."""

_TOGETHER = 8
"""Connections that are answered before the first of their replies is sent.  Sending wakes the
client, which costs the sender more than the rest of a small request where a processor has gone to
sleep; one that already works on the reply before need not be woken."""

_LOOKS = 32
_LOOKS_A_PASS = 8
"""How often to look for the next request before sleeping, some 50 us in all, and after how many
looks the other tasks get their turn.  A client that waits for each reply sends again within 20 us,
sooner than a sleeping process is woken: its requests take a fifth to nearly half less time so."""

_PASSES_OVER_MAX = 63
"""How often in a row looking is left out at most, after it has been in vain."""


class Peer(Protocol):
    """A connection, as far as it can be served without waiting.

    Each step returns False, or raises, when the connection's own task has to go on.
    """

    def readable(self, *, hold: bool) -> bool:
        """Read once and answer; with `hold` the replies are kept for `send`."""

    def send(self) -> bool:
        """Send the replies that were kept."""

    def is_timely(self) -> bool:
        """Whether a request that can still put off a timer which is due waits to be read."""


class Deadlines(Protocol):
    """The timers, as far as requests must not come before them; kwire.broker.timers has them."""

    next_ms: float

    def now_ms(self) -> float: ...
    def are_due(self) -> bool: ...
    def fire_due(self) -> None: ...


class _Served:
    """One registered connection."""

    __slots__ = ("peer", "problem", "task")

    def __init__(self, peer: Peer, task: trio.lowlevel.Task) -> None:
        self.peer = peer
        self.task = task
        self.problem: Exception | None = None


class ReadySockets:
    """See the module."""

    def __init__(self, timers: Deadlines) -> None:
        self._timers = timers
        self._epoll = select.epoll()
        self._served: dict[int, _Served] = {}

    async def serve(self, descriptor: int, peer: Peer) -> None:
        """Have `peer` read and send whenever there is something to read, until it returns False.

        What it raises is raised here.
        """
        served = _Served(peer, trio.lowlevel.current_task())
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
        patience, timers = Patience(), self._timers
        now_s = trio.lowlevel.current_clock().current_time
        with self._epoll:
            descriptor = self._epoll.fileno()
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                ready = self._epoll.poll(0, _READY_MAX)
                while ready:
                    if now_s() * 1000 >= timers.next_ms and timers.are_due():
                        ready = self._fire_due()
                    self._serve_all(ready)
                    if not patience.is_worthwhile():
                        break
                    ready = await self._look_again()
                    patience.learn(rewarded=bool(ready))

    def _fire_due(self) -> Ready:
        """Fire timers; who has something to read after that."""
        for descriptor, _ in self._epoll.poll(0, _TIMELY_MAX):
            served = self._served.get(descriptor)
            if served is not None and served.peer.is_timely():
                self._read(descriptor, hold=False)
        self._timers.fire_due()
        return self._epoll.poll(0, _READY_MAX)

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
        if len(ready) == 1:
            self._read(ready[0][0], hold=False)
            return
        for start in range(0, len(ready), _TOGETHER):
            together = ready[start : start + _TOGETHER]
            answered = [each for each, _ in together if self._read(each, hold=True)]
            for descriptor in answered:
                self._send(descriptor)

    def _read(self, descriptor: int, *, hold: bool) -> bool:
        served = self._served.get(descriptor)
        if served is None:  # an earlier one of this round had it closed
            return False
        try:
            if served.peer.readable(hold=hold):
                return True
        except Exception as problem:  # its own task decides what comes of it
            served.problem = problem
        self._give_back(descriptor, served)
        return False

    def _send(self, descriptor: int) -> None:
        served = self._served.get(descriptor)
        if served is None:
            return
        try:
            if served.peer.send():
                return
        except Exception as problem:
            served.problem = problem
        self._give_back(descriptor, served)

    def _give_back(self, descriptor: int, served: _Served) -> None:
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

    def __init__(self, timers: Deadlines) -> None:
        self._timers = timers

    async def serve(self, descriptor: int, peer: Peer) -> None:
        """As ReadySockets.serve."""
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            fire_due_before(self._timers, peer)
            if not peer.readable(hold=False):
                return

    async def run(self) -> None:
        """Nothing to do: each connection waits for itself."""


def fire_due_before(timers: Deadlines, peer: Peer) -> None:
    """Fire what is due, unless `peer` has a request that comes before."""
    if timers.now_ms() >= timers.next_ms and timers.are_due() and not peer.is_timely():
        timers.fire_due()


def ready_sockets(timers: Deadlines) -> ReadySockets | WaitingSockets:
    """What serves connections best on this system."""
    return ReadySockets(timers) if hasattr(select, "epoll") else WaitingSockets(timers)
