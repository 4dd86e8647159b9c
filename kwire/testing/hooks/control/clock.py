"""The broker's time where a test may have it go on faster than the world's.

All that waits in a broker waits on trio's clock, and all that is written down takes the broker's
`now_ms`; both are this one's.  They go on by themselves, as the world's do, and are ahead of it by
what a test has asked for, or stand still.  Quotas and what closes idle connections go by the
world's time: they are about what really passes between a client and the broker.
"""

from __future__ import annotations

import math
import time
from typing import Final, NamedTuple

import trio

from kwire.broker.broker import Broker

STEPS_MAX: Final = 1_000
"""In how many steps time is gone ahead, at most: a day has 86,400 looks at the logs."""
AHEAD_MS_MAX: Final = 100 * 365 * 24 * 3_600_000
"""A hundred years: beyond, dates have no form in some places."""


class TooFar(ValueError):
    """That is not what a clock can be gone ahead by; the message says why."""


class Moment(NamedTuple):
    """One, by both of the world's clocks."""

    wall_ns: int
    monotonic_ns: int


def _now() -> Moment:
    return Moment(time.time_ns(), time.perf_counter_ns())


class ControlledClock(trio.abc.Clock):
    """Trio's clock, and the wall clock."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self._gone_ms = ahead_ms
        """By how much it was gone ahead."""
        self._stood_ns = 0
        """How long it has stood still, but for since when it does now."""
        self._held_at: Moment | None = None
        self._advancing = trio.Lock()

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of the world's; below 0 where it stood still for longer."""
        standing_ns = 0
        if self._held_at is not None:
            standing_ns = time.perf_counter_ns() - self._held_at.monotonic_ns
        return self._gone_ms - (self._stood_ns + standing_ns) // 1_000_000

    @property
    def is_held(self) -> bool:
        return self._held_at is not None

    def hold(self) -> None:
        """Stand still, but for what `advance` is asked for."""
        self._held_at = self._held_at or _now()

    def release(self) -> None:
        """Go on from where it stands."""
        held_at, self._held_at = self._held_at, None
        if held_at is not None:
            self._stood_ns += time.perf_counter_ns() - held_at.monotonic_ns

    def start_clock(self) -> None:
        """It goes already."""

    def current_time(self) -> float:
        moment = self._held_at or _now()
        return (moment.monotonic_ns - self._stood_ns) / 1e9 + self._gone_ms / 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left_s = deadline - self.current_time()
        return math.inf if self.is_held and left_s > 0 else left_s

    def now_ms(self) -> int:
        """The wall clock, in ms since the epoch."""
        moment = self._held_at or _now()
        return (moment.wall_ns - self._stood_ns) // 1_000_000 + self._gone_ms

    def broker_class(self) -> type[Broker]:
        """A broker that goes by this clock."""
        return type("ControlledBroker", (Broker,), {"now_ms": staticmethod(self.now_ms)})

    async def advance(self, by_ms: int) -> None:
        """Go ahead, from one deadline to the next, with all that comes due in its order.

        Deadlines that are closer to each other than a thousandth of `by_ms` come together.
        Returns when what came due is done, but for what threads do.  Raises TooFar.
        """
        if self._gone_ms + by_ms > AHEAD_MS_MAX:
            raise TooFar("a clock is not ahead by more than a hundred years")
        async with self._advancing:
            # Imported when it is needed: it brings pytest where that is installed, 80 ms.
            from trio.testing import wait_all_tasks_blocked

            end_ms = self._gone_ms + by_ms
            least_ms = max(1, by_ms // STEPS_MAX)
            await wait_all_tasks_blocked()
            while (left_ms := end_ms - self._gone_ms) > 0:
                next_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
                next_ms = left_ms if next_s * 1000 >= left_ms else int(next_s * 1000) + 1
                self._gone_ms += min(left_ms, max(next_ms, least_ms))
                await wait_all_tasks_blocked()
