"""A broker's clock that a test can advance and hold.

Everything in a broker waits on trio's clock, and every timestamp comes from the broker's `now_ms`.
Both are this clock.  It runs at the speed of the real time, ahead of it by what a test asked for,
unless it is held.  Quotas and the closing of idle connections use the real time, because they
measure the real traffic between a client and the broker.
"""

from __future__ import annotations

import math
import time
from typing import Final, NamedTuple

import trio

from kwire.broker.broker import Broker

STEPS_MAX: Final = 1_000
"""How many steps an `advance` takes at most: one day has 86,400 checks of the logs."""
AHEAD_MS_MAX: Final = 100 * 365 * 24 * 3_600_000
"""A hundred years: some code cannot format later dates."""


class TooFar(ValueError):
    """The clock cannot advance by so much; the message says why."""


class Moment(NamedTuple):
    """One moment of the real time, by the wall clock and by the monotonic clock."""

    wall_ns: int
    monotonic_ns: int


def _now() -> Moment:
    return Moment(time.time_ns(), time.perf_counter_ns())


class ControlledClock(trio.abc.Clock):
    """The clock of a controlled broker: trio's clock and its wall clock."""

    def __init__(self, ahead_ms: int = 0) -> None:
        """The clock runs at once, `ahead_ms` milliseconds ahead of the real time."""
        self._advanced_ms = ahead_ms
        """The sum of all advances."""
        self._held_ns = 0
        """For how long the clock was held, without the current hold."""
        self._held_at: Moment | None = None
        """When the current hold began; None if the clock runs."""
        self._advancing = trio.Lock()

    @property
    def ahead_ms(self) -> int:
        """How many ms the clock is ahead of the real time; negative after a longer hold."""
        current_hold_ns = 0
        if self._held_at is not None:
            current_hold_ns = time.perf_counter_ns() - self._held_at.monotonic_ns
        return self._advanced_ms - (self._held_ns + current_hold_ns) // 1_000_000

    @property
    def is_held(self) -> bool:
        return self._held_at is not None

    def hold(self) -> None:
        """Stop the clock; only `advance` moves it until `release`."""
        self._held_at = self._held_at or _now()

    def release(self) -> None:
        """Let the clock run again from where it stopped."""
        held_at, self._held_at = self._held_at, None
        if held_at is not None:
            self._held_ns += time.perf_counter_ns() - held_at.monotonic_ns

    def start_clock(self) -> None:
        """Nothing to do: the clock runs from the beginning."""

    def current_time(self) -> float:
        moment = self._held_at or _now()
        return (moment.monotonic_ns - self._held_ns) / 1e9 + self._advanced_ms / 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left_s = deadline - self.current_time()
        return math.inf if self.is_held and left_s > 0 else left_s

    def now_ms(self) -> int:
        """The wall clock, in ms since the epoch."""
        moment = self._held_at or _now()
        return (moment.wall_ns - self._held_ns) // 1_000_000 + self._advanced_ms

    def broker_class(self) -> type[Broker]:
        """A subclass of Broker whose `now_ms` is this clock's."""
        return type("ControlledBroker", (Broker,), {"now_ms": staticmethod(self.now_ms)})

    async def advance(self, by_ms: int) -> None:
        """Advance from one deadline to the next, so that timers fire in their order.

        Deadlines less than a thousandth of `by_ms` apart fire together.  Returns when the tasks
        that the timers woke are blocked again; threads may still work.  Raises TooFar.
        """
        if self._advanced_ms + by_ms > AHEAD_MS_MAX:
            raise TooFar("a clock cannot be ahead by more than a hundred years")
        async with self._advancing:
            # Imported on use: it imports pytest if that is installed, which takes 80 ms.
            from trio.testing import wait_all_tasks_blocked

            end_ms = self._advanced_ms + by_ms
            step_min_ms = max(1, by_ms // STEPS_MAX)
            await wait_all_tasks_blocked()
            while (left_ms := end_ms - self._advanced_ms) > 0:
                next_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
                next_ms = left_ms if next_s * 1000 >= left_ms else int(next_s * 1000) + 1
                self._advanced_ms += min(left_ms, max(next_ms, step_min_ms))
                await wait_all_tasks_blocked()
