"""Stopping a broker: one signal asks for a clean stop, a second one ends it at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from kwire.server import server


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in server.STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", server.STOP_SIGNALS)
async def test_second_signal_ends_the_process_though_the_loop_is_busy(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing thousands of logs keeps the loop busy: nothing is awaited between the signals."""
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server._stop_on_signal, stop)
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(number)
        await stop.wait()
    assert statuses == []
    signal.raise_signal(number)
    assert statuses == [1]
