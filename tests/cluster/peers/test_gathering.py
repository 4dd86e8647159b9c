"""RequestBatcher sends one request at a time, with all items added meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.peers.gathering import RequestBatcher

Item = tuple[str, int]
"""An item: its subject and its content."""


class Wire:
    """Records sent requests, and answers each when the test says so."""

    def __init__(self, nursery: trio.Nursery, items_max: int) -> None:
        self.sent: list[tuple[int, list[Item]]] = []
        self.answers = trio.Semaphore(0)
        self.gathering: RequestBatcher[Item] = RequestBatcher(
            nursery, lambda item: item, self._send, items_max=items_max
        )

    async def _send(self, broker_id: int, items: list[Item]) -> None:
        self.sent.append((broker_id, items))
        await self.answers.acquire()

    async def answer(self) -> None:
        """Have a request answered, and the next one go out."""
        self.answers.release()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def running(items_max: int = 100) -> AsyncIterator[Wire]:
    async with trio.open_nursery() as nursery:
        yield Wire(nursery, items_max)
        nursery.cancel_scope.cancel()


async def test_items_added_together_share_one_request() -> None:
    async with running() as wire:
        wire.gathering.add(1, ("a", 1))
        wire.gathering.add(2, ("b", 1))
        wire.gathering.add(1, ("c", 1))
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(wire.sent) == [(1, [("a", 1), ("c", 1)]), (2, [("b", 1)])]


async def test_items_added_during_a_request_share_the_next_one() -> None:
    async with running() as wire:
        wire.gathering.add(1, ("a", 1))
        await trio.testing.wait_all_tasks_blocked()
        wire.gathering.add(1, ("b", 1))
        wire.gathering.add(1, ("c", 1))
        await trio.testing.wait_all_tasks_blocked()
        assert wire.sent == [(1, [("a", 1)])]
        await wire.answer()
        assert wire.sent[1:] == [(1, [("b", 1), ("c", 1)])]
        await wire.answer()
        wire.gathering.add(1, ("d", 1))
        await trio.testing.wait_all_tasks_blocked()
        assert wire.sent[2:] == [(1, [("d", 1)])]


async def test_request_has_one_content_per_subject() -> None:
    async with running() as wire:
        for item in (("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", 3)):
            wire.gathering.add(1, item)
        await trio.testing.wait_all_tasks_blocked()
        await wire.answer()
        await wire.answer()
        assert wire.sent == [
            (1, [("a", 1), ("b", 1), ("a", 1)]),
            (1, [("a", 2)]),
            (1, [("a", 3)]),
        ]


@settings(max_examples=30, deadline=None)
@pytest.mark.slow
@given(
    items=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=30),
    items_max=st.integers(1, 5),
)
def test_each_item_is_sent_exactly_once(items: list[Item], items_max: int) -> None:
    async def within() -> list[list[Item]]:
        async with running(items_max) as wire:
            for item in items:
                wire.gathering.add(1, item)
            for _ in range(len(items)):
                await wire.answer()
            return [sent for _, sent in wire.sent]

    requests = trio.run(within)
    assert sorted(item for sent in requests for item in sent) == sorted(items)
    for sent in requests:
        assert 1 <= len(sent) <= items_max
        assert len(dict(sent)) == len(set(sent))
