"""Timers on the trio loop: one task and one heap for any number of timers.

Most timers never fire: each heartbeat puts off a session timer, a thousand times before a member
fails.  So putting off a timer is one assignment.  The heap keeps the old time, and reads the new
one when the old one is reached.

Due timers fire before requests are served.  kwire.server.network.readiness compares its clock with
`next_ms` first, and calls `fire_due`.  So no request sees a state from before its arrival, however
late the kernel wakes this process (epoll sleeps for whole milliseconds).  `run` fires timers while
no requests arrive.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from itertools import count

import trio

log = logging.getLogger("kwire.timers")

_NEVER = math.inf

FIRED_AHEAD_MAX = 64
"""The most timers that fire before requests are served again.  When a thousand sessions end
together, other requests wait for so many timers at a time, some 10 ms."""

STALLED_MS_MIN = 10.0
"""A timer that fires later than this was delayed, by a stopped or an overloaded process."""


def _seconds(when_ms: float) -> float:
    """Return the loop's time in s that is not before `when_ms`.

    The division may round down.  A task that wakes before its time would sleep until now, again and
    again.
    """
    seconds = when_ms / 1000
    return seconds if seconds * 1000 >= when_ms else math.nextafter(seconds, math.inf)


class Timer:
    """One callback and its time."""

    __slots__ = ("_queued", "_timers", "callback", "when_ms")

    def __init__(self, timers: Timers, when_ms: float, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._queued = _NEVER
        """The time of the timer's valid heap entry; entries with another time are stale."""
        self.when_ms = when_ms
        self.callback = callback

    def move(self, when_ms: float) -> None:
        """Fire at `when_ms` instead; this also starts a timer that has fired or was cancelled."""
        self.when_ms = when_ms
        if when_ms < self._queued:
            self._timers._queue(self, when_ms)

    def cancel(self) -> None:
        self.when_ms = _NEVER


class Timers:
    """Calls callbacks at their time, in the order of their times.

    Times are those of the loop's clock (`now_ms`), which neither jumps nor goes back.
    """

    def __init__(self) -> None:
        """Begin without timers; `run` fires them."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._ticket = count()
        self._sleep: trio.CancelScope | None = None
        self._ahead = False
        self.next_ms = _NEVER
        """No timer is due before this time.  After it, `are_due` decides: the first heap entry may
        be that of a timer that was put off."""

    @staticmethod
    def now_ms() -> float:
        return trio.current_time() * 1000

    def at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` once at `when_ms`, or soon if that is in the past."""
        timer = Timer(self, when_ms, callback)
        self._queue(timer, when_ms)
        return timer

    def after(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self.at(self.now_ms() + delay_ms, callback)

    def _queue(self, timer: Timer, when_ms: float) -> None:
        """Put the timer on the heap for `when_ms`, and shorten the sleep if it is the next one.

        A ticket number orders timers of the same time.
        """
        timer._queued = when_ms
        heapq.heappush(self._heap, (when_ms, next(self._ticket), timer))
        if self._heap[0][2] is timer:
            self.next_ms = when_ms
            if self._sleep is not None:
                self._sleep.deadline = _seconds(when_ms)

    def are_due(self) -> bool:
        """Whether a timer is due."""
        return self._first_due(self.now_ms(), _NEVER) is not None

    def fire_due(self) -> None:
        """Fire the due timers in order, at most FIRED_AHEAD_MAX.

        A timer that a callback sets for this moment (work in slices) is left to `run`.
        """
        now_ms = self.now_ms()
        newest = next(self._ticket)
        for _ in range(FIRED_AHEAD_MAX):
            if not self._fire_next(now_ms, newest):
                return
            self._ahead = True

    async def run(self) -> None:
        """Fire timers until cancelled."""
        while True:
            while self.are_due():
                await self._let_others_run()
                if self._ahead:  # `fire_due` has fired this pass's share of timers
                    self._ahead = False
                else:
                    self._fire_next(self.now_ms(), _NEVER)
            with trio.CancelScope(deadline=_seconds(self.next_ms)) as self._sleep:
                await trio.sleep_forever()
            self._sleep = None

    async def _let_others_run(self) -> None:
        """Let other tasks run, among them requests: after a stall one may put off a due timer.

        The next pass of the loop notices such a request, and serves it then or in the pass after.
        """
        await trio.lowlevel.checkpoint()
        if self.now_ms() - self.next_ms > STALLED_MS_MIN:
            await trio.lowlevel.checkpoint()

    def _fire_next(self, now_ms: float, newest: float) -> bool:
        """Fire the first due timer that was not queued after `newest`; False if there is none."""
        timer = self._first_due(now_ms, newest)
        if timer is None:
            return False
        self._pop()
        timer._queued = timer.when_ms = _NEVER
        self._fire(timer)
        return True

    def _first_due(self, now_ms: float, newest: float) -> Timer | None:
        """Return the timer that `_fire_next` fires; moves timers that were put off to their new
        times.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ms and heap[0][1] < newest:
            queued_ms, _, timer = heap[0]
            if queued_ms == timer._queued:
                if timer.when_ms <= now_ms:
                    return timer
                timer._queued = _NEVER
            self._pop()
            if timer._queued == _NEVER != timer.when_ms:
                self._queue(timer, timer.when_ms)
        return None

    def _pop(self) -> None:
        heapq.heappop(self._heap)
        self.next_ms = self._heap[0][0] if self._heap else _NEVER

    @staticmethod
    def _fire(timer: Timer) -> None:
        """Call the timer's callback.  An exception is a defect; it must not stop other timers."""
        try:
            timer.callback()
        except Exception:
            log.exception("unhandled error in a timer")
