"""An advanced clock sets off the same, in the same order, as a clock that was waited for."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from kwire.broker.timers import Timers
from kwire.testing.hooks.control.clock import ControlledClock

GRID_S = 10
"""Between deadlines: more than what a busy machine is late by, and than a step of the clock."""
SPAN_S = 2_000

Name = tuple[int, ...]
"""What set it off, and which of the things it was that were set off."""
Event = tuple[int, Name]
"""When something came, in steps of the grid, and what it was."""
Pass = Callable[[], Awaitable[None]]


class Schedule:
    """Timers that set others, and tasks that sleep and begin others; each draws by its name."""

    def __init__(self, seed: int, nursery: trio.Nursery) -> None:
        self._seed = seed
        self._nursery = nursery
        self._timers = Timers()
        self._begin_s = trio.current_time()
        self.happened: list[Event] = []

    async def begin(self) -> None:
        self._nursery.start_soon(self._timers.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(5):
            self._set((number,))

    def _grid(self) -> int:
        return round((trio.current_time() - self._begin_s) / GRID_S)

    def _set(self, name: Name) -> None:
        chance = random.Random(f"{self._seed}:{name}")
        wanted_s = self._begin_s + GRID_S * (self._grid() + chance.randint(1, 40))
        delay_s = wanted_s - trio.current_time()
        if chance.random() < 0.5:
            self._timers.after(delay_s * 1000, lambda: self._happen(name))
        else:
            self._nursery.start_soon(self._sleep, name, delay_s)

    async def _sleep(self, name: Name, delay_s: float) -> None:
        await trio.sleep(delay_s)
        self._happen(name)

    def _happen(self, name: Name) -> None:
        self.happened.append((self._grid(), name))
        chance = random.Random(f"{self._seed}:{name}:next")
        for number in range(chance.choice((0, 1, 1, 2))):
            self._set((*name, number))


async def played(seed: int, let_pass: Pass) -> list[Event]:
    async with trio.open_nursery() as nursery:
        schedule = Schedule(seed, nursery)
        await schedule.begin()
        await let_pass()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    slots = [slot for slot, _ in schedule.happened]
    assert slots == sorted(slots)
    return sorted(schedule.happened)


def waited_for(seed: int) -> list[Event]:
    """By trio's own test clock, which goes to each deadline in turn."""

    async def wait() -> None:
        await trio.sleep(SPAN_S)

    return trio.run(played, seed, wait, clock=trio.testing.MockClock(autojump_threshold=0))


def advanced(seed: int) -> list[Event]:
    clock = ControlledClock()

    async def advance() -> None:
        await clock.advance(SPAN_S * 1000)

    return trio.run(played, seed, advance, clock=clock)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(25, marks=pytest.mark.long)])
def test_advance_fires_timers_in_their_order(first: int) -> None:
    most = 0
    for seed in range(first, 500 if first else 25):
        found = waited_for(seed)
        assert advanced(seed) == found, seed
        most = max(most, len(found))
    assert most > 40


async def test_clock_runs_by_itself() -> None:
    clock = ControlledClock()
    before = clock.current_time(), clock.now_ms()
    await clock.advance(5_000)
    assert clock.current_time() - before[0] >= 5
    assert clock.now_ms() - before[1] >= 5_000
    assert clock.deadline_to_sleep_time(clock.current_time() + 7) <= 7


def test_held_clock_moves_only_by_advance() -> None:
    """Nothing comes due by itself, and what `advance` is asked for does."""
    clock = ControlledClock()
    happened: list[str] = []

    async def sleep() -> None:
        await trio.sleep(0.02)
        happened.append("slept")

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            clock.hold()
            clock.hold()
            then = (clock.current_time(), clock.now_ms())
            nursery.start_soon(sleep)
            await trio.to_thread.run_sync(time.sleep, 0.1)
            assert (clock.current_time(), clock.now_ms(), happened) == (*then, [])
            await clock.advance(19)
            assert (clock.now_ms() - then[1], happened) == (19, [])
            await clock.advance(2)
            assert happened == ["slept"]
            assert clock.ahead_ms < 0
            clock.release()
            clock.release()
            assert then[0] + 0.021 <= clock.current_time() < then[0] + 60
            nursery.start_soon(sleep)
        assert happened == ["slept", "slept"]

    trio.run(test, clock=clock)
