"""A waiting Fetch is woken once there may be enough bytes, or once waiting is useless."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.image import PartitionImage
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.purgatory import ParkedFetch
from tests.requests.handlers.node import Node

BATCH = 146
"""Bytes of what Node.append writes."""


@pytest.fixture
def partitions(node: Node) -> list[Partition]:
    node.create("t", 2)
    return [node.partition("t", index) for index in range(2)]


async def was_woken(parked: ParkedFetch, missing_bytes: int, *steps: Callable[[], object]) -> int:
    """The number of steps after which it was woken."""
    woken = trio.Event()

    async def wait() -> None:
        await parked.arrival(missing_bytes)
        woken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for number, step in enumerate(steps):
            await trio.testing.wait_all_tasks_blocked()
            if woken.is_set():
                return number
            step()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert woken.is_set()
    return len(steps)


async def test_parked_fetch_wakes_at_the_last_missing_byte(
    node: Node, partitions: list[Partition]
) -> None:
    def append(index: int) -> Callable[[], object]:
        return lambda: node.append("t", index)

    with ParkedFetch(each.fetch_waiters for each in partitions) as parked:
        assert await was_woken(parked, 2 * BATCH, append(0), append(1), append(0)) == 2
        steps = [append(0), append(1), append(0), append(1)]
        assert await was_woken(parked, 2 * BATCH + 1, *steps) == 3, "counted anew"
        assert await was_woken(parked, 0, append(1), append(1)) == 1, "any will do"
        assert await was_woken(parked, -5, append(1), append(1)) == 1, "any will do"


async def test_parked_fetch_does_not_wait_after_a_partition_change(
    node: Node, partitions: list[Partition]
) -> None:
    """The read after the change returns the right error at once; waiting would only delay it."""
    with ParkedFetch(each.fetch_waiters for each in partitions) as parked:
        moved = PartitionImage(2, 1, 1, (1, 2), (1, 2))
        assert await was_woken(parked, 1000, lambda: partitions[1].follow(moved)) == 1
        assert parked.changed
        assert await was_woken(parked, 1000) == 0


async def test_fetch_that_has_left_is_not_woken(partitions: list[Partition]) -> None:
    with ParkedFetch(each.fetch_waiters for each in partitions):
        assert all(partition.fetch_waiters for partition in partitions)
    assert not any(partition.fetch_waiters for partition in partitions)
