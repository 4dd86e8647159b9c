"""Finds the connections that have something to read, with one epoll and one task for all of them.

trio's `wait_readable` registers the socket again for each wait, and wakes the task of the
connection: that is one more pass through the kernel and one through the scheduler for every
request.  Here a connection is registered once.  The task of this module calls its `readable`, a
plain function, for as long as the connection needs nothing else.  A connection that has to wait
gets its own task back, or a new one if it has none: idle connections have no task.

Timers that are due fire before requests are served, with one exception: a request that can put off
a due timer is served first (kwire.server.network.timely).  So after a stall no session ends while
its heartbeat is in the socket already, and a request about a session that has ended sees that it
ended.  Apache Kafka leaves this order to a race between threads.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio

Ready = list[tuple[int, int]]
"""The result of epoll: pairs of a descriptor and its events."""

_READY_MAX = 256
"""The most connections that are served between two passes of the scheduler."""

_TIMELY_MAX = 4096
"""The most connections that are searched for a timely request, some 2 us each."""

_TOGETHER = 8
"""The number of connections that are served before their replies are sent.  To send a reply wakes
the client.  If its processor sleeps, that costs the sender more than the rest of a small request; a
client that still works on an earlier reply need not be woken."""

_ALONE = 32
"""The number of passes in a row with requests of one connection alone, after which it is taken for
the only busy one."""

_POLLS = 32
_POLLS_A_PASS = 8
"""How often to poll for the next request before sleeping (some 50 us in all), and the number of
polls after which other tasks run.  A client that waits for each reply sends its next request within
20 us, sooner than a sleeping process wakes: polling makes such requests 20 to nearly 50 %
faster."""

_PASSES_OVER_MAX = 63
"""The most polls in a row that are skipped after polls without a result."""


class WorkOfGroup(Protocol):
    """The part of the shared work that this module needs; kwire.broker.shared_work has the rest."""

    def begin(self) -> None: ...
    def finish(self) -> None: ...


class ReadablePeer(Protocol):
    """The steps of a connection that never wait.

    `readable` and `send` return False, or raise, when the connection has to go on in a task.
    """

    def readable(self, *, hold: bool) -> bool:
        """Read once and handle the requests; with `hold` the replies are kept for `send`."""

    def send(self) -> bool:
        """Send the replies that were kept."""

    def is_timely(self) -> bool:
        """Whether an unread request can still put off a timer that is due."""

    def resume(self, failure: Exception | None) -> None:
        """Go on in a new task; `failure` is what `readable` or `send` raised."""


class Deadlines(Protocol):
    """The part of the timers that this module needs; kwire.broker.timers has the whole."""

    next_ms: float

    def now_ms(self) -> float: ...
    def are_due(self) -> bool: ...
    def fire_due(self) -> None: ...


class _Served:
    """One registered connection; `task` waits for it, if it has one."""

    __slots__ = ("error", "peer", "task")

    def __init__(self, peer: ReadablePeer, task: trio.lowlevel.Task | None) -> None:
        self.peer = peer
        self.task = task
        self.error: Exception | None = None


class ReadySockets:
    """Serves connections by epoll; see the module."""

    sends_soon = True

    def __init__(self, timers: Deadlines, work: WorkOfGroup) -> None:
        """`work` is what requests that are served together leave for the end of their group."""
        self._timers = timers
        self._work = work
        self._epoll = select.epoll()
        self._is_serving = False
        self._to_send: set[int] = set()
        """The connections that have replies to send after this pass."""
        self._last = -1
        """The connection that was ready last."""
        self._passes_alone = 0
        """How many passes in a row it alone was ready."""
        self._served: dict[int, _Served] = {}

    def watch(self, descriptor: int, peer: ReadablePeer) -> None:
        """Call `peer` whenever its socket is readable, until it returns False or raises.

        Then its `resume` is called.
        """
        self._register(descriptor, _Served(peer, None))

    async def serve(self, descriptor: int, peer: ReadablePeer) -> bool:
        """Call `peer` whenever its socket is readable, until it returns False; returns True then.

        Returns False after `dismiss`: the calls go on, as after `watch`.  Raises what `peer`
        raises.
        """
        served = _Served(peer, trio.lowlevel.current_task())
        self._register(descriptor, served)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self.forget(descriptor)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if served.error is not None:
            raise served.error
        return served.task is not None

    def send_soon(self, descriptor: int) -> None:
        """Call `send` of a connection, after the present pass if there is one.

        A connection whose own task goes on sends by itself.  Any task may call this; an error of
        the connection is that of `serve`.
        """
        if self._is_serving:
            self._to_send.add(descriptor)
        else:
            self._send(descriptor)

    def _register(self, descriptor: int, served: _Served) -> None:
        self._served[descriptor] = served
        self._epoll.register(descriptor, select.EPOLLIN)

    def dismiss(self, descriptor: int) -> bool:
        """Let the task that waits in `serve` go, if there is one; returns whether there is."""
        served = self._served.get(descriptor)
        if served is None or served.task is None:
            return False
        task, served.task = served.task, None
        trio.lowlevel.reschedule(task)
        return True

    def forget(self, descriptor: int) -> bool:
        """Call the peer no more; returns False if it is not served."""
        if self._served.pop(descriptor, None) is None:
            return False
        self._epoll.unregister(descriptor)
        return True

    @property
    def is_one_alone(self) -> bool:
        """Whether the connection that is served now was the only one lately."""
        return self._passes_alone >= _ALONE

    def others_wait(self) -> bool:
        """Whether a connection that is served has sent something."""
        return bool(self._epoll.poll(0, 1))

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
                    ready = await self._poll_again()
                    patience.learn(rewarded=bool(ready))

    def _fire_due(self) -> Ready:
        """Serve timely requests, then fire the due timers.  Returns who is readable afterwards."""
        for descriptor, _ in self._epoll.poll(0, _TIMELY_MAX):
            served = self._served.get(descriptor)
            if served is not None and served.peer.is_timely():
                self._read(descriptor, hold=False)
        self._timers.fire_due()
        return self._epoll.poll(0, _READY_MAX)

    async def _poll_again(self) -> Ready:
        """Poll for about 50 us; returns the connections that became readable, if any."""
        ready: Ready = []
        for number in range(_POLLS):
            if number % _POLLS_A_PASS == 0:
                await trio.lowlevel.checkpoint()
            ready = self._epoll.poll(0, _READY_MAX)
            if ready:
                break
        return ready

    def _serve_all(self, ready: Ready) -> None:
        """Handle the requests of all ready connections, in groups of `_TOGETHER`.

        The replies of a group are held and sent after its last request: to send a reply wakes the
        client, which costs more than the rest of a small request (see `_TOGETHER`).  Work that the
        requests share is done before the replies are sent.
        """
        self._is_serving = True
        if len(ready) == 1:
            descriptor = ready[0][0]
            if descriptor == self._last:
                self._passes_alone += 1
            else:
                self._last, self._passes_alone = descriptor, 0
            self._read(descriptor, hold=False)
        else:
            self._passes_alone = 0
            self._serve_together(ready)
        self._is_serving = False
        while self._to_send:
            self._send(self._to_send.pop())

    def _serve_together(self, ready: Ready) -> None:
        """Handle the requests of several ready connections; see `_serve_all`."""
        for start in range(0, len(ready), _TOGETHER):
            together = ready[start : start + _TOGETHER]
            self._work.begin()
            try:
                answered = [
                    descriptor for descriptor, _ in together if self._read(descriptor, hold=True)
                ]
            finally:
                self._work.finish()
            for descriptor in answered:
                self._send(descriptor)

    def _read(self, descriptor: int, *, hold: bool) -> bool:
        """Read from one connection; return False if it goes on in its task, or it is gone.

        With `hold` the replies stay in the outbox until `_send`.
        """
        served = self._served.get(descriptor)
        if served is None:  # another connection of this round has had it closed
            return False
        try:
            if served.peer.readable(hold=hold):
                return True
        except Exception as error:  # raised again in the connection's own task
            served.error = error
        self._go_on_in_task(descriptor, served)
        return False

    def _send(self, descriptor: int) -> None:
        """Send the held replies; the connection's own task goes on if some are left or it fails."""
        served = self._served.get(descriptor)
        if served is None:
            return
        try:
            if served.peer.send():
                return
        except Exception as error:
            served.error = error
        self._go_on_in_task(descriptor, served)

    def _go_on_in_task(self, descriptor: int, served: _Served) -> None:
        self.forget(descriptor)
        if served.task is None:
            served.peer.resume(served.error)
        else:
            trio.lowlevel.reschedule(served.task)


class Patience:
    """Decides whether to poll for the next request before sleeping.

    Each poll without a result doubles the number of polls that are then skipped, so that clients
    with pauses between their requests cost almost nothing.  A poll with a result resets the number.
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
    """Serves connections by `trio.lowlevel.wait_readable`, on systems without epoll (macOS).

    Each connection has a task to its end.
    """

    sends_soon = False

    def __init__(self, timers: Deadlines, _: WorkOfGroup | None = None) -> None:
        """Nothing is shared by connections that each have a task."""
        self._timers = timers

    def watch(self, descriptor: int, peer: ReadablePeer) -> None:
        """Let `peer` go on in a task, which then calls `serve`."""
        peer.resume(None)

    async def serve(self, descriptor: int, peer: ReadablePeer) -> bool:
        """As ReadySockets.serve."""
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            fire_due_before(self._timers, peer)
            if not peer.readable(hold=False):
                return True

    def dismiss(self, descriptor: int) -> bool:
        """Returns False: a task that waits is needed."""
        return False

    def forget(self, descriptor: int) -> bool:
        """Returns False: nothing is served without a task."""
        return False

    @property
    def is_one_alone(self) -> bool:
        """False: nobody knows."""
        return False

    def others_wait(self) -> bool:
        """Returns True: nobody knows."""
        return True

    async def run(self) -> None:
        """Does nothing: each connection waits in its own task."""

    def send_soon(self, descriptor: int) -> None:
        """Not available: a connection sends in its own task."""
        raise AssertionError("see sends_soon")


def fire_due_before(timers: Deadlines, peer: ReadablePeer) -> None:
    """Fire the due timers, unless `peer` has a timely request, which is served first."""
    if timers.now_ms() >= timers.next_ms and timers.are_due() and not peer.is_timely():
        timers.fire_due()


def ready_sockets(timers: Deadlines, work: WorkOfGroup) -> ReadySockets | WaitingSockets:
    """The faster way to serve connections that this system has."""
    kind = ReadySockets if hasattr(select, "epoll") else WaitingSockets
    return kind(timers, work)
