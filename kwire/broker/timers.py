"""Timers on the trio loop: one task and a heap, however many there are.

Most timers never fire: a session timer is put off by each heartbeat, a thousand times before a
member fails.  So putting off is one assignment; the heap keeps the old time and finds out when it
comes.

What is due comes before requests: whoever serves them (kwire.server.network.readiness) compares its
clock with `next_ms` first, and has what is due fired (`fire_due`).  So no request is answered from
a time before its arrival, however late the kernel wakes this process (epoll sleeps for whole
milliseconds).  `run` fires where there are no requests.
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
"""Timers that are fired before requests get their turn again: when a thousand sessions end
together, whoever asks for something else waits for so many of them, some 10 ms, at a time."""

STALLED_MS_MIN = 10.0
"""Timers that are later than this were held up, by a stopped process or an overloaded one."""


def _seconds(when_ms: float) -> float:
    """The loop's time at which `when_ms` has come, also where a thousandth of it is rounded down:
    who woke before would go to sleep until now, again and again."""
    seconds = when_ms / 1000
    return seconds if seconds * 1000 >= when_ms else math.nextafter(seconds, math.inf)


class Timer:
    """One callback and its time."""

    __slots__ = ("_queued", "_timers", "callback", "when_ms")

    def __init__(self, timers: Timers, when_ms: float, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._queued = _NEVER
        """The time of the one heap entry that counts; entries with another time are stale."""
        self.when_ms = when_ms
        self.callback = callback

    def move(self, when_ms: float) -> None:
        """Fire at `when_ms` instead; a timer that fired or was cancelled is set again."""
        self.when_ms = when_ms
        if when_ms < self._queued:
            self._timers._queue(self, when_ms)

    def cancel(self) -> None:
        self.when_ms = _NEVER


class Timers:
    """Fires callbacks at their time, in order, on the task that runs `run`.

    Times are those of the loop's own clock (`now_ms`), which neither jumps nor goes back.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._ticket = count()
        self._sleep: trio.CancelScope | None = None
        self._ahead = False
        self.next_ms = _NEVER
        """Before it nothing is due.  Then something may be: what was put off is in the heap still,
        so `are_due` tells for certain."""

    @staticmethod
    def now_ms() -> float:
        return trio.current_time() * 1000

    def at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` once at `when_ms`, soon if that is past."""
        timer = Timer(self, when_ms, callback)
        self._queue(timer, when_ms)
        return timer

    def after(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self.at(self.now_ms() + delay_ms, callback)

    def _queue(self, timer: Timer, when_ms: float) -> None:
        timer._queued = when_ms
        heapq.heappush(self._heap, (when_ms, next(self._ticket), timer))
        if self._heap[0][2] is timer:
            self.next_ms = when_ms
            if self._sleep is not None:
                self._sleep.deadline = _seconds(when_ms)

    def are_due(self) -> bool:
        """Whether there is something to fire."""
        return self._first_due(self.now_ms(), _NEVER) is not None

    def fire_due(self) -> None:
        """Fire what is due, in order, FIRED_AHEAD_MAX at most.

        What a callback sets for this very moment (work in slices) is left to `run`.
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
                await self._leave_others_their_turn()
                if self._ahead:  # what was fired ahead of requests was this turn's share
                    self._ahead = False
                else:
                    self._fire_next(self.now_ms(), _NEVER)
            with trio.CancelScope(deadline=_seconds(self.next_ms)) as self._sleep:
                await trio.sleep_forever()
            self._sleep = None

    async def _leave_others_their_turn(self) -> None:
        """Requests too: after a stall one may lie in a socket that puts off what is due.

        It is noticed in the next pass of the loop, and served in that one or the one after it.
        """
        await trio.lowlevel.checkpoint()
        if self.now_ms() - self.next_ms > STALLED_MS_MIN:
            await trio.lowlevel.checkpoint()

    def _fire_next(self, now_ms: float, newest: float) -> bool:
        """Fire the first timer that is due and not queued after `newest`; whether there was one."""
        timer = self._first_due(now_ms, newest)
        if timer is None:
            return False
        self._pop()
        timer._queued = timer.when_ms = _NEVER
        self._fire(timer)
        return True

    def _first_due(self, now_ms: float, newest: float) -> Timer | None:
        """As `_fire_next`; timers that have been put off get their new place in the heap."""
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
        """A callback that fails is a defect; it must not take the other timers with it."""
        try:
            timer.callback()
        except Exception:
            log.exception("unhandled error in a timer")
