"""A Fetch of what lies on disk alone: a thread reads it in, and then it goes on as any other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from trio.testing import MockClock

from kwire.log import ColdLookup, delete_records
from tests.requests.handlers.node import Node
from tests.requests.handlers.test_fetch_waits import BATCH, fetch, told


@pytest.fixture
def on_disk(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Two partitions of `t` with a batch each, of which nothing seems to be in memory."""
    monkeypatch.setattr("kwire.log.reading.residency.is_resident", lambda *_: False)
    node.create("t", 3)
    node.append("t", 0)
    node.append("t", 1)
    for index in range(3):  # as after a start: where a reader was last is not known
        node.partition("t", index).log.reader.positions.clear()
    return node


@pytest.fixture
def read_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each look-up that was read in: whether that was beside the loop."""
    beside: list[bool] = []
    plain: Callable[[ColdLookup], None] = ColdLookup.read_in

    def noted(cold: ColdLookup) -> None:
        beside.append(threading.current_thread() is not threading.main_thread())
        plain(cold)

    monkeypatch.setattr(ColdLookup, "read_in", noted)
    return beside


@pytest.mark.parametrize("max_wait_ms", [500, 0])
async def test_what_is_read_in_is_told_at_once(
    on_disk: Node, read_in: list[bool], autojump_clock: MockClock, max_wait_ms: int
) -> None:
    request = fetch((0, 0), (1, 0), (2, 0), max_wait_ms=max_wait_ms)
    reply, seconds = await on_disk.wait_for(request, 12)
    assert (told(reply), seconds) == ([(0, 0, BATCH), (1, 0, BATCH), (2, 0, 0)], 0.0)
    assert read_in == [True, True]


@pytest.mark.parametrize(("max_wait_ms", "seconds"), [(500, 0.5), (1, 0.001), (0, 0.0), (-1, 0.0)])
async def test_what_is_not_enough_is_waited_for_as_ever(
    on_disk: Node,
    read_in: list[bool],
    autojump_clock: MockClock,
    max_wait_ms: int,
    seconds: float,
) -> None:
    request = fetch((0, 0), min_bytes=2 * BATCH, max_wait_ms=max_wait_ms)
    reply, waited = await on_disk.wait_for(request, 12)
    assert (told(reply), waited) == ([(0, 0, BATCH)], seconds)
    assert read_in == [True]


def test_an_offset_that_is_not_there_needs_no_disk(on_disk: Node) -> None:
    delete_records(on_disk.partition("t").log, 5, 5)
    reply = on_disk.call(fetch((0, 0), (1, 9), max_wait_ms=0), 12)
    assert told(reply) == [(0, 1, 0), (1, 1, 0)]
