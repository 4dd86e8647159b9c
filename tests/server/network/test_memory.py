"""The memory pool of requests on their way in (queued.max.request.bytes)."""

from __future__ import annotations

import trio
import trio.testing

from kwire.server.network.memory import MemoryPool


async def test_pool_without_limit_only_counts() -> None:
    pool = MemoryPool(-1)
    await pool.acquire(10**12)
    assert pool.used_bytes == 10**12
    assert not pool.limited


async def test_pool_grants_memory_in_the_order_of_requests() -> None:
    pool = MemoryPool(100)
    got: list[int] = []

    async def take(size_bytes: int) -> None:
        await pool.acquire(size_bytes)
        got.append(size_bytes)

    async with trio.open_nursery() as nursery:
        await pool.acquire(90)
        nursery.start_soon(take, 60)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, 5)  # would fit, but its turn is after the 60
        await trio.testing.wait_all_tasks_blocked()
        assert got == []
        pool.release(90)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(got) == [5, 60]
        assert pool.used_bytes == 65


async def test_request_above_the_limit_is_granted_in_an_empty_pool() -> None:
    pool = MemoryPool(100)
    await pool.acquire(500)
    with trio.move_on_after(0.01) as scope:
        await pool.acquire(1)
    assert scope.cancelled_caught
    pool.release(500)
    await pool.acquire(1)
    assert pool.used_bytes == 1


async def test_cancelled_wait_for_memory_is_removed() -> None:
    pool = MemoryPool(10)
    await pool.acquire(10)
    with trio.move_on_after(0.01):
        await pool.acquire(10)
    pool.release(10)
    assert pool.used_bytes == 0
    await pool.acquire(10)
    assert pool.used_bytes == 10


async def test_pool_grants_its_whole_limit_and_no_more() -> None:
    pool = MemoryPool(100)
    with trio.fail_after(60):
        await pool.acquire(30)
        await pool.acquire(70)
    assert pool.used_bytes == 100
    with trio.move_on_after(0.01) as scope:
        await pool.acquire(1)
    assert scope.cancelled_caught


async def test_cancelled_wait_lets_smaller_requests_through() -> None:
    pool = MemoryPool(100)
    got: list[int] = []

    async def take(size_bytes: int, scope: trio.CancelScope) -> None:
        with scope:
            await pool.acquire(size_bytes)
            got.append(size_bytes)

    await pool.acquire(90)
    first, second = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, 60, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, 5, second)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert got == [5]
        assert pool.used_bytes == 95
        nursery.cancel_scope.cancel()


async def test_wait_cancelled_when_granted_releases_its_memory() -> None:
    pool = MemoryPool(100)
    scope = trio.CancelScope()

    async def take() -> None:
        with scope:
            await pool.acquire(60)

    await pool.acquire(90)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        pool.release(90)
    assert pool.used_bytes in (0, 60)  # whichever came first
    if not scope.cancelled_caught:
        pool.release(60)
    assert pool.used_bytes == 0
