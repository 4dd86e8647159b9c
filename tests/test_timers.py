"""kwire.broker.node.timers and kwire.coordinators.runtime.promise on a clock that jumps."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
import trio.testing

from kwire.broker.timers import FIRED_AHEAD_MAX, Timers
from kwire.coordinators.runtime.promise import Promise


async def test_fires_in_order_of_time_then_of_setting(
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
async def test_times_fire_whose_thousandth_is_rounded_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Not after sleeping until now for ever, on a clock that only moves while all sleep."""
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


async def test_an_earlier_timer_wakes_the_sleeper(autojump_clock: trio.testing.MockClock) -> None:
    timers, fired = Timers(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        timers.after(5_000, lambda: fired.append("late"))
        await trio.sleep(1)
        timers.after(500, lambda: fired.append("early"))
        await trio.sleep(0.6)
        assert fired == ["early"]
        nursery.cancel_scope.cancel()


async def test_moving_and_cancelling(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_failing_callback_is_told_and_spares_the_others(
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


async def test_a_promise_wakes_who_waits(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_promise_outlives_who_waited(autojump_clock: trio.testing.MockClock) -> None:
    promise: Promise[str] = Promise()
    with trio.move_on_after(1) as scope:
        await promise.wait()
    assert scope.cancelled_caught
    promise.resolve("nobody hears it")
    assert promise.value == "nobody hears it"


async def test_others_have_their_turn_between_those_that_are_due(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What shards of a coordinator do in slices would be one long piece of work otherwise."""
    timers, woken = Timers(), trio.Event()
    done: list[str] = []

    async def other() -> None:
        await woken.wait()
        done.append("other")

    timers.after(100, woken.set)
    for name in ("second", "third"):  # it is not said which of two that are ready goes first
        timers.after(100, partial(done.append, name))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        nursery.start_soon(other)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(done) == ["other", "second", "third"]
    assert done[-1] == "third"


async def test_what_is_due_is_fired_at_once_but_not_without_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Work in slices sets itself anew for this very moment; requests come in between."""
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


async def test_a_thousand_that_are_due_together_let_requests_through(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timers = Timers()
    fired: list[None] = []
    for _ in range(1000):
        timers.after(0, partial(fired.append, None))
    timers.fire_due()
    assert len(fired) == FIRED_AHEAD_MAX


async def test_what_was_fired_ahead_is_that_turns_share(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Or work in slices would hold up requests for two slices a turn."""
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
