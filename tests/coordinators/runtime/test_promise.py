"""Promises: resolved once, for one waiting task, which may be cancelled before that."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio
import trio.testing

from kwire.coordinators.runtime.promise import Promise, then, then_all


async def test_waiting_task_gets_the_value() -> None:
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


async def test_wait_on_a_resolved_promise_is_a_checkpoint() -> None:
    promise: Promise[str] = Promise()
    promise.resolve("it")
    with trio.CancelScope() as scope:
        scope.cancel()
        await promise.wait()
    assert scope.cancelled_caught, "a connection that only finds answers must not keep the loop"
    assert await promise.wait() == "it"


async def test_value_is_dropped_if_the_waiting_task_was_cancelled() -> None:
    """Its connection ended."""
    promise: Promise[str] = Promise()
    with trio.move_on_after(0.001):
        await promise.wait()
    promise.resolve("late")
    await trio.testing.wait_all_tasks_blocked()
    assert await promise.wait() == "late"


async def test_promise_is_resolved_once_and_has_one_waiter() -> None:
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


async def test_then_returns_at_once_for_a_value() -> None:
    assert then("a", str.upper) == "A"
    assert then_all(["a", "b"], "".join) == "ab"
    assert then_all([], "".join) == ""


async def test_then_all_keeps_the_order_of_its_replies() -> None:
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
