"""A Fetch of records that are not in memory: a thread reads them from the disk first."""

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
    """Topic `t`: two partitions with a batch each, which seem not to be in memory."""
    monkeypatch.setattr("kwire.log.reading.residency.is_resident", lambda *_: False)
    node.create("t", 3)
    node.append("t", 0)
    node.append("t", 1)
    for index in range(3):  # as after a start: where a reader was last is not known
        node.partition("t", index).log.reader.positions.clear()
    return node


@pytest.fixture
def read_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each cold look-up, whether a thread other than the loop's read it."""
    beside: list[bool] = []
    plain: Callable[[ColdLookup], None] = ColdLookup.read_in

    def noted(cold: ColdLookup) -> None:
        beside.append(threading.current_thread() is not threading.main_thread())
        plain(cold)

    monkeypatch.setattr(ColdLookup, "read_in", noted)
    return beside


@pytest.mark.parametrize("max_wait_ms", [500, 0])
async def test_fetch_answers_at_once_after_reading_cold_records_from_disk(
    on_disk: Node, read_in: list[bool], autojump_clock: MockClock, max_wait_ms: int
) -> None:
    request = fetch((0, 0), (1, 0), (2, 0), max_wait_ms=max_wait_ms)
    reply, seconds = await on_disk.wait_for(request, 12)
    assert (told(reply), seconds) == ([(0, 0, BATCH), (1, 0, BATCH), (2, 0, 0)], 0.0)
    assert read_in == [True, True]


@pytest.mark.parametrize(("max_wait_ms", "seconds"), [(500, 0.5), (1, 0.001), (0, 0.0), (-1, 0.0)])
async def test_fetch_waits_for_min_bytes_after_reading_from_disk(
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


def test_fetch_of_an_offset_outside_the_log_reads_no_disk(on_disk: Node) -> None:
    delete_records(on_disk.partition("t").log, 5, 5)
    reply = on_disk.call(fetch((0, 0), (1, 9), max_wait_ms=0), 12)
    assert told(reply) == [(0, 1, 0), (1, 1, 0)]
