"""When the process that holds the metadata ends: by a signal, or with its parent."""

from __future__ import annotations

import os
import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.stores.shared import holder


async def test_wait_for_the_parent_can_be_cancelled_while_the_parent_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal stops the holder, although a thread still reads standard input."""
    parent_ends = threading.Event()
    monkeypatch.setattr(holder, "_read_to_the_end", parent_ends.wait)
    ended = False

    async def wait_for_the_parent() -> None:
        nonlocal ended
        with scope:
            await holder._end_of_standard_input()
        ended = True

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_the_parent)
        try:
            await wait_all_tasks_blocked()
            scope.cancel()
            await wait_all_tasks_blocked()
            assert ended
        finally:
            parent_ends.set()


def test_standard_input_is_read_to_its_end() -> None:
    """Whatever the parent writes there is ignored."""
    before, (reading, writing) = os.dup(0), os.pipe()
    try:
        os.dup2(reading, 0)
        os.write(writing, b"x" * 10_000)
        os.close(writing)
        holder._read_to_the_end()
        assert os.read(reading, 1) == b""
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)
