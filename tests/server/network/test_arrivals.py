"""Clients of TLS listeners are accepted at once, and admitted the newest first."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import cast

import pytest
import trio
import trio.testing

from kwire.server.network import arrivals
from kwire.server.network.arrivals import ADMITTED_TOGETHER_MAX, Arrivals
from kwire.server.tls.handshake import QUEUE_MAX, Handshakes


class Door:
    """A listening socket on which clients knock."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=256))
        self.listening.setblocking(False)

    def knock(self, count: int) -> list[socket.socket]:
        address = self.listening.getsockname()
        made = (socket.create_connection(address) for _ in range(count))
        return [self._stack.enter_context(each) for each in made]


@pytest.fixture
def door() -> Iterator[Door]:
    with ExitStack() as stack:
        yield Door(stack)


def names(clients: list[socket.socket]) -> list[object]:
    return [client.getsockname() for client in clients]


def admitted(waiting: Arrivals) -> list[object]:
    found = []
    for client, address in waiting.newest():
        client.close()
        found.append(address)
    return found


def anybody(waiting: int) -> bool:
    return True


def test_arrivals_admit_few_newest_connections_at_once(door: Door) -> None:
    waiting = Arrivals(anybody)
    first = door.knock(ADMITTED_TOGETHER_MAX + 3)
    waiting.take(door.listening)
    assert admitted(waiting) == names(first)[3:]
    second = door.knock(1)
    waiting.take(door.listening)
    assert admitted(waiting) == names(first)[:3] + names(second), "the very newest is last"
    assert not waiting


def test_arrivals_admit_the_newest_while_handshakes_wait(door: Door) -> None:
    waiting = Arrivals(anybody)
    there = door.knock(3)
    waiting.take(door.listening)
    for name in reversed(names(there)):
        ((client, address),) = waiting.newest(few=True)
        client.close()
        assert address == name
    assert waiting.newest(few=True) == []


def test_arrivals_accept_no_more_than_the_limits_allow(door: Door) -> None:
    waiting = Arrivals(lambda there: there < 2)
    door.knock(3)
    waiting.take(door.listening)
    assert len(waiting) == 2
    admitted(waiting)
    waiting.take(door.listening)
    assert len(waiting) == 1
    waiting.close()


def test_arrivals_close_the_longest_waiting_above_the_maximum(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WAITING_MAX", 2)
    waiting = Arrivals(anybody)
    clients = door.knock(3)
    waiting.take(door.listening)
    assert clients[0].recv(1) == b""
    assert admitted(waiting) == names(clients)[1:]


def test_arrivals_close_all_waiting_connections_on_close(door: Door) -> None:
    waiting = Arrivals(anybody)
    clients = door.knock(2)
    waiting.take(door.listening)
    waiting.close()
    assert [client.recv(1) for client in clients] == [b"", b""]


class Exhausted:
    """A listening socket of a process that has no descriptors left."""

    def __init__(self, number: int = errno.EMFILE) -> None:
        self._number = number

    def accept(self) -> None:
        raise OSError(self._number, "no more")


def test_arrivals_admit_waiting_connections_without_free_descriptors(door: Door) -> None:
    waiting = Arrivals(anybody)
    with pytest.raises(OSError, match="no more"):
        waiting.take(cast(socket.socket, Exhausted()))
    door.knock(1)
    waiting.take(door.listening)
    waiting.take(cast(socket.socket, Exhausted()))
    with pytest.raises(OSError, match="no more"):
        waiting.take(cast(socket.socket, Exhausted(errno.EBADF)))
    assert len(admitted(waiting)) == 1


async def test_handshake_steps_run_newest_first_while_admission_waits() -> None:
    handshakes = Handshakes(at_once_max=1)
    done: list[int] = []
    hold = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handshakes._step, lambda: void(hold.wait(60)))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(QUEUE_MAX):
            assert len(handshakes._waiting) == number
            nursery.start_soon(handshakes._step, partial(done.append, number))
            await trio.testing.wait_all_tasks_blocked()
        assert len(handshakes._waiting) == QUEUE_MAX
        hold.set()
        while handshakes.are_many:
            await handshakes.breathe()
    assert done == [*range(QUEUE_MAX - 1, -1, -1)]


def void(_: object) -> None:
    """For what nobody looks at."""
