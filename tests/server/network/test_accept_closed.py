"""A stop that comes in the same turn as a client: the listener is closed under its accept."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.broker.shared_work import SharedWork
from kwire.broker.timers import Timers
from kwire.server.network.listener import ConnectionServer
from kwire.settings import load


def a_server() -> ConnectionServer:
    broker = SimpleNamespace(
        config=load(),
        node=SimpleNamespace(timers=Timers(), shared_work=SharedWork()),
        configs=SimpleNamespace(),
    )
    return ConnectionServer(cast(Broker, broker))


async def accept_while(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, listening: socket.socket
) -> None:
    """Accept; when it next waits for `owner.name`, the listener is closed meanwhile."""

    async def closing(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        listening.close()

    wait: Callable[..., Awaitable[None]] = closing
    monkeypatch.setattr(owner, name, wait)
    with trio.fail_after(240):
        async with trio.open_nursery() as nursery:
            await a_server().accept(listening, "PLAINTEXT", nursery)


async def test_accept_ends_when_listener_closes_with_a_connection_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen as `ERROR serve: bad file descriptor` and status 1 after SIGTERM."""
    listening = socket.create_server(("127.0.0.1", 0))
    await accept_while(monkeypatch, trio.lowlevel, "wait_readable", listening)
    assert listening.fileno() == -1


async def test_accept_ends_when_listener_closes_while_it_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    await accept_while(monkeypatch, ConnectionServer, "_wait_for_room", listening)
    assert listening.fileno() == -1
