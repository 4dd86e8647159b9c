"""The memory pool of requests on their way in (queued.max.request.bytes)."""

from __future__ import annotations

import trio
import trio.testing

from kwire.network.memory import MemoryPool


async def test_an_unlimited_pool_only_counts() -> None:
    pool = MemoryPool(-1)
    await pool.acquire(10**12)
    assert pool.used_bytes == 10**12
    assert not pool.limited


async def test_waits_for_room_in_the_order_of_asking() -> None:
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


async def test_a_request_larger_than_the_pool_gets_through_alone() -> None:
    pool = MemoryPool(100)
    await pool.acquire(500)
    with trio.move_on_after(0.01) as scope:
        await pool.acquire(1)
    assert scope.cancelled_caught
    pool.release(500)
    await pool.acquire(1)
    assert pool.used_bytes == 1


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    pool = MemoryPool(10)
    await pool.acquire(10)
    with trio.move_on_after(0.01):
        await pool.acquire(10)
    pool.release(10)
    assert pool.used_bytes == 0
    await pool.acquire(10)
    assert pool.used_bytes == 10
