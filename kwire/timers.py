"""Timers on the trio loop: one task and a heap, however many there are.

Most timers never fire: a session timer is put off by each heartbeat, a thousand times before a
member fails.  So putting off is one assignment; the heap keeps the old time and finds out when it
comes.
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
        if self._sleep is not None and self._heap[0][2] is timer:
            self._sleep.deadline = when_ms / 1000

    async def run(self) -> None:
        """Fire timers until cancelled."""
        while True:
            while self._fire_next():
                await trio.lowlevel.checkpoint()  # others have their turn between two callbacks
            next_ms = self._heap[0][0] if self._heap else _NEVER
            with trio.CancelScope(deadline=next_ms / 1000) as self._sleep:
                await trio.sleep_forever()
            self._sleep = None

    def _fire_next(self) -> bool:
        """Fire the first timer that is due; whether there was one."""
        now_ms = self.now_ms()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, timer = heapq.heappop(heap)
            if queued_ms != timer._queued:
                continue
            timer._queued = _NEVER
            if timer.when_ms > now_ms:
                if timer.when_ms != _NEVER:
                    self._queue(timer, timer.when_ms)
                continue
            timer.when_ms = _NEVER
            self._fire(timer)
            return True
        return False

    @staticmethod
    def _fire(timer: Timer) -> None:
        """A callback that fails is a defect; it must not take the other timers with it."""
        try:
            timer.callback()
        except Exception:
            log.exception("unhandled error in a timer")
