"""Values that come later: once, to one task, which may be gone by then."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio
import trio.testing

from kwire.coordinators.runtime.promise import Promise, then, then_all


async def test_whoever_waits_is_given_the_value() -> None:
    promise: Promise[str] = Promise()
    given: list[str] = []

    async def wait() -> None:
        given.append(await promise.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert given == []
        promise.resolve("it")
    assert given == ["it"]
    assert promise.value == "it"


async def test_who_comes_later_gets_it_and_lets_others_run() -> None:
    promise: Promise[str] = Promise()
    promise.resolve("it")
    with trio.CancelScope() as scope:
        scope.cancel()
        await promise.wait()
    assert scope.cancelled_caught, "a connection that only finds answers must not keep the loop"
    assert await promise.wait() == "it"


async def test_a_value_that_nobody_waits_for_any_longer_is_dropped() -> None:
    """Its connection ended."""
    promise: Promise[str] = Promise()
    with trio.move_on_after(0.001):
        await promise.wait()
    promise.resolve("late")
    await trio.testing.wait_all_tasks_blocked()
    assert await promise.wait() == "late"


async def test_a_promise_is_kept_once_to_one() -> None:
    promise: Promise[str] = Promise()
    with pytest.raises(AssertionError):
        _ = promise.value
    async with trio.open_nursery() as nursery:
        nursery.start_soon(promise.wait)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(AssertionError, match="one task"):
            await promise.wait()
        promise.resolve("it")
        with pytest.raises(AssertionError, match="once"):
            promise.resolve("again")


async def test_a_response_is_made_at_once_of_what_is_there() -> None:
    assert then("a", str.upper) == "A"
    assert then_all(["a", "b"], "".join) == "ab"
    assert then_all([], "".join) == ""


async def test_a_response_is_made_of_what_comes_in_the_order_of_what_was_asked() -> None:
    first, last = Promise[str](), Promise[str]()
    asked: list[str | Promise[str]] = [first, "b", last]
    waits = then_all(asked, "".join)
    one = then(Promise[str](), str.upper)
    assert isinstance(one, Awaitable)
    assert isinstance(waits, Awaitable)
    last.resolve("c")
    first.resolve("a")
    assert await waits == "abc"
    promise = Promise[str]()
    promise.resolve("x")
    later = then(promise, str.upper)
    assert isinstance(later, Awaitable)
    assert await later == "X"
