"""kwire.broker.node.timers and kwire.coordinators.runtime.promise on a clock that jumps."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
import trio.testing

from kwire.broker.timers import FIRED_AHEAD_MAX, Timers
from kwire.coordinators.runtime.promise import Promise


async def test_timers_fire_in_order_of_time_then_of_creation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timers, fired = Timers(), []
    timers.after(300, lambda: fired.append(("c", trio.current_time())))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        timers.after(100, lambda: fired.append(("a", trio.current_time())))
        timers.after(100, lambda: fired.append(("b", trio.current_time())))
        timers.after(-5, lambda: fired.append(("past", trio.current_time())))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert fired == [("past", 0.0), ("a", 0.1), ("b", 0.1), ("c", 0.3)]


@pytest.mark.timeout(120)
async def test_timers_fire_though_their_time_in_seconds_is_rounded_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The clock only moves while all tasks sleep: a sleep until now would repeat for ever."""
    timers = Timers()
    fired: list[int] = []
    rounded_down = [ms for ms in range(1, 100_000) if ms / 1000 * 1000 < ms]
    assert rounded_down
    for ms in rounded_down:
        timers.at(ms, partial(fired.append, ms))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        await trio.sleep(101)
        nursery.cancel_scope.cancel()
    assert fired == rounded_down


async def test_earlier_timer_shortens_the_sleep(autojump_clock: trio.testing.MockClock) -> None:
    timers, fired = Timers(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        timers.after(5_000, lambda: fired.append("late"))
        await trio.sleep(1)
        timers.after(500, lambda: fired.append("early"))
        await trio.sleep(0.6)
        assert fired == ["early"]
        nursery.cancel_scope.cancel()


async def test_moved_timer_fires_at_its_new_time_and_cancelled_one_never(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timers, fired = Timers(), []

    def at_time(name: str) -> None:
        fired.append((name, round(trio.current_time(), 3)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        later = timers.after(100, lambda: at_time("later"))
        later.move(400)
        sooner = timers.after(400, lambda: at_time("sooner"))
        sooner.move(50)
        back = timers.after(100, lambda: at_time("back"))
        back.move(900)
        back.move(200)
        gone = timers.after(100, lambda: at_time("gone"))
        gone.cancel()
        again = timers.after(100, lambda: at_time("again"))
        again.cancel()
        again.move(300)
        await trio.sleep(2)
        assert fired == [("sooner", 0.05), ("back", 0.2), ("again", 0.3), ("later", 0.4)]
        sooner.move(2500)
        await trio.sleep(1)
        assert fired[-1] == ("sooner", 2.5)
        nursery.cancel_scope.cancel()


async def test_heartbeats_do_not_grow_the_heap(autojump_clock: trio.testing.MockClock) -> None:
    timers = Timers()
    session = timers.after(1_000, lambda: None)
    for when_ms in range(1_000, 50_000):
        session.move(when_ms)
    assert len(timers._heap) == 1


async def test_error_of_a_callback_is_logged_and_other_timers_still_fire(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    timers, fired = Timers(), []

    def fail() -> None:
        raise RuntimeError("a defect")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        timers.after(100, fail)
        timers.after(100, lambda: timers.after(100, lambda: fired.append("child")))
        with caplog.at_level(logging.ERROR, logger="kwire.timers"):
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert fired == ["child"]
    assert "unhandled error in a timer" in caplog.text


async def test_resolved_promise_wakes_its_waiter(autojump_clock: trio.testing.MockClock) -> None:
    promise: Promise[str] = Promise()
    got: list[str] = []

    async def wait() -> None:
        got.append(await promise.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        assert not got
        promise.resolve("value")
    assert got == ["value"]
    assert await promise.wait() == "value"
    with pytest.raises(AssertionError):
        promise.resolve("again")


async def test_promise_can_be_resolved_after_its_waiter_was_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    promise: Promise[str] = Promise()
    with trio.move_on_after(1) as scope:
        await promise.wait()
    assert scope.cancelled_caught
    promise.resolve("nobody hears it")
    assert promise.value == "nobody hears it"


async def test_other_tasks_run_between_timers_that_are_due_together(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Otherwise the slices of a coordinator's work would run as one long piece."""
    timers, woken = Timers(), trio.Event()
    done: list[str] = []

    async def other() -> None:
        await woken.wait()
        done.append("other")

    timers.after(100, woken.set)
    for name in ("second", "third"):  # trio runs ready tasks in any order
        timers.after(100, partial(done.append, name))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        nursery.start_soon(other)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(done) == ["other", "second", "third"]
    assert done[-1] == "third"


async def test_fire_due_fires_what_was_due_when_it_began(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Work in slices sets a new timer for now; requests must get a turn between the slices."""
    timers, done = Timers(), []

    def work() -> None:
        done.append("slice")
        timers.after(0, work)

    timers.after(0, work)
    timers.after(0, partial(done.append, "other"))
    timers.after(1, partial(done.append, "later"))
    timers.fire_due()
    assert done == ["slice", "other"]
    timers.fire_due()
    assert done == ["slice", "other", "slice"]


async def test_fire_due_fires_a_limited_number_of_timers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timers = Timers()
    fired: list[None] = []
    for _ in range(1000):
        timers.after(0, partial(fired.append, None))
    timers.fire_due()
    assert len(fired) == FIRED_AHEAD_MAX


async def test_timers_fired_ahead_count_towards_the_turn_of_the_loop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Otherwise work in slices would delay requests by two slices a turn."""
    timers, turns, slices = Timers(), 0, 0

    def work() -> None:
        nonlocal slices
        slices += 1
        timers.after(0, work)

    async with trio.open_nursery() as nursery:
        timers.after(0, work)
        nursery.start_soon(timers.run)
        while turns < 100:
            timers.fire_due()
            await trio.lowlevel.checkpoint()
            turns += 1
        nursery.cancel_scope.cancel()
    assert slices < 160  # 200 otherwise; some 125, as the loop draws who goes first in a turn
