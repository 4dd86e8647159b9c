"""How a broker that stops closes its connections."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from kwire.server.network.listener import DRAIN_TIMEOUT_S, ConnectionServer


class Replying:
    """A connection whose reply is under way until `until_s`."""

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.closed_s: float | None = None

    @property
    def sending(self) -> bool:
        return trio.current_time() < self.until_s

    def close(self) -> None:
        if self.closed_s is None:
            self.closed_s = trio.current_time()


def server_of(*connections: Replying) -> ConnectionServer:
    server = ConnectionServer.__new__(ConnectionServer)
    server._connections = cast(Any, set(connections))
    return server


async def test_drain_closes_each_connection_once_its_reply_is_sent(
    autojump_clock: MockClock,
) -> None:
    start = trio.current_time()
    idle, busy, slow = (Replying(start + after_s) for after_s in (0, 0.5, 1.5))
    await server_of(idle, busy, slow).drain()
    closed = [each.closed_s for each in (idle, busy, slow)]
    assert [each and each - start for each in closed] == pytest.approx([0, 0.5, 1.5], abs=0.02)
    assert trio.current_time() == slow.closed_s


async def test_drain_without_replies_under_way_ends_at_once(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    idle = Replying(start)
    await server_of(idle).drain()
    await server_of().drain()
    assert (idle.closed_s, trio.current_time()) == (start, start)


async def test_drain_leaves_a_connection_that_does_not_end(autojump_clock: MockClock) -> None:
    """The caller cancels it then."""
    start = trio.current_time()
    endless = Replying(float("inf"))
    await server_of(endless).drain()
    assert endless.closed_s is None
    assert trio.current_time() - start == pytest.approx(DRAIN_TIMEOUT_S)
