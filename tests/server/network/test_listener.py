"""Accepting and letting go: sockets as they are set up, trouble at the door, who is idle."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.requests.context import Context
from kwire.server.network import listener
from kwire.server.network.connection import Connection
from kwire.server.network.listener import (
    LOOKED_AT_TOGETHER_MAX,
    ConnectionServer,
    open_listening_socket,
)
from kwire.settings import load
from kwire.testing.hosting.ports import free_port
from tests.inside import PATIENCE_S, RawClient, running_broker, until
from tests.requests.handlers.node import Node


class Door:
    """A listening socket that gives or raises what the test wants before it is the real one."""

    def __init__(self, listening: socket.socket, *troubles: int | type[OSError]) -> None:
        self._listening = listening
        self.troubles = list(troubles)
        self.accepted: list[socket.socket] = []

    def fileno(self) -> int:
        return self._listening.fileno()

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.troubles:
            trouble = self.troubles.pop(0)
            raise OSError(trouble, "trouble") if isinstance(trouble, int) else trouble()
        client, address = self._listening.accept()
        self.accepted.append(client)
        return client, address


@asynccontextmanager
async def served(
    node: Node, *troubles: int | type[OSError]
) -> AsyncIterator[tuple[ConnectionServer, Door, tuple[str, int]]]:
    """A server of its own behind such a door; what it listens at."""
    server = ConnectionServer(node.broker)
    with open_listening_socket("127.0.0.1", 0, 50) as listening:
        door = Door(listening, *troubles)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_ready)
            nursery.start_soon(server.accept, cast(socket.socket, door), "PLAINTEXT", nursery)
            try:
                yield server, door, listening.getsockname()
            finally:
                server.close()
            nursery.cancel_scope.cancel()


async def is_answered(address: tuple[str, int]) -> bool:
    """Whether somebody who connects there is served."""
    client = RawClient.over(await trio.open_tcp_stream(*address))
    with trio.fail_after(PATIENCE_S):
        told = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return told.error_code == ErrorCode.NONE


@pytest.fixture
def make(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    "trouble", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, ConnectionAbortedError]
)
async def test_accept_is_tried_again_after_a_shortage(
    make: Node, trouble: int | type[OSError], caplog: pytest.LogCaptureFixture
) -> None:
    async with served(make, trouble) as (_, door, address):
        assert await is_answered(address)
        assert door.troubles == []
    told = [each.getMessage() for each in caplog.records if "PLAINTEXT" in each.getMessage()]
    assert len(told) == (0 if trouble is ConnectionAbortedError else 1)


async def test_aborted_connection_does_not_delay_the_next_ones(make: Node) -> None:
    """They are accepted in the same turn."""
    async with served(make) as (server, door, address):
        door.troubles = [ConnectionAbortedError, ConnectionAbortedError]
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(is_answered, address)
        assert len(door.accepted) == 3
        await until(lambda: len(server._connections) == 3)


async def test_unexpected_accept_error_is_raised(make: Node) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="trouble"), flatten_subgroups=True):
        async with served(make, errno.EBADF) as (_, _, address):
            await trio.open_tcp_stream(*address)
            await trio.sleep(PATIENCE_S)


async def test_connection_that_cannot_be_configured_is_closed_alone(
    make: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = ConnectionServer._prepare
    failures = [OSError(errno.EINVAL, "was gone at once")]

    def failing(self: ConnectionServer, client: socket.socket) -> None:
        if failures:
            raise failures.pop()
        prepare(self, client)

    monkeypatch.setattr(ConnectionServer, "_prepare", failing)
    async with served(make) as (server, door, address):
        gone = RawClient.over(await trio.open_tcp_stream(*address))
        assert await gone.receive_frame() is None
        assert door.accepted[0].fileno() == -1
        assert len(server._connections) == 0
        assert await is_answered(address)


async def test_connection_ids_are_unique_and_in_kafkas_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka writes them: local address, remote address, a number."""
    names: list[tuple[str, str, str]] = []
    plain = Connection.begin

    def noted(
        self: Connection, nursery: trio.Nursery, on_end: Callable[[Connection], None]
    ) -> None:
        context = self.context
        names.append((context.connection_id, context.listener, context.client_host))
        plain(self, nursery, on_end)

    monkeypatch.setattr(Connection, "begin", noted)
    async with running_broker(tmp_path) as broker:
        clients = [await RawClient.connect(broker) for _ in range(3)]
        for client in clients:
            await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        ports = [client.stream.socket.getsockname()[1] for client in clients]
        local = f"127.0.0.1:{clients[0].stream.socket.getpeername()[1]}"
    wanted = {
        (f"{local}-127.0.0.1:{port}-{number}", "PLAINTEXT", "127.0.0.1")
        for number, port in enumerate(ports, 1)
    }
    assert set(names) == wanted


@pytest.mark.parametrize(
    ("settings", "buffer_bytes"),
    [
        ({}, None),
        ({"socket.send.buffer.bytes": "-1"}, None),
        ({"socket.send.buffer.bytes": "9000"}, 9000),
    ],
)
async def test_accepted_socket_has_nodelay_keepalive_and_configured_buffer(
    tmp_path: Path, settings: Mapping[str, str], buffer_bytes: int | None
) -> None:
    """No Nagle, probes of who is silent; and a buffer only where one is asked for by name."""
    node = Node(tmp_path, settings)
    near, far = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with near, far:
        far.connect(near.getsockname())
        plain, _ = near.accept()
        with plain:
            usual = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            ConnectionServer(node.broker)._prepare(plain)
            assert not plain.getblocking()
            assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            now = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            if buffer_bytes is None:
                assert now == usual
            else:
                assert buffer_bytes <= now <= 3 * buffer_bytes


@dataclass(eq=False)
class Quiet:
    """A connection as the reaper sees it."""

    listener: str = "PLAINTEXT"
    waiting: bool = False
    activity: int = 0
    shrunk: int = 0
    sends_for: int = 0
    """How often it is asked to shrink before it can."""
    when_shrunk: Callable[[], None] = lambda: None
    closed: bool = False

    @property
    def context(self) -> Context:
        return Context(self.listener, "127.0.0.1", "a-connection")

    def shrink_if_idle(self) -> bool:
        self.sends_for -= 1
        if self.sends_for >= 0:
            return False
        self.shrunk += 1
        self.when_shrunk()
        return True

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def reaped(
    monkeypatch: pytest.MonkeyPatch, directory: Path, *quiet: Quiet, **settings: str
) -> AsyncIterator[Node]:
    async with reaping(monkeypatch, directory, *quiet, **settings) as (node, _):
        yield node


@asynccontextmanager
async def reaping(
    monkeypatch: pytest.MonkeyPatch, directory: Path, *quiet: Quiet, **settings: str
) -> AsyncIterator[tuple[Node, ConnectionServer]]:
    """A server that looks at these each second of a clock that jumps."""
    node = Node(directory, {name.replace("_", "."): value for name, value in settings.items()})
    server = ConnectionServer(node.broker)
    for each in quiet:
        server._connections.add(cast(Connection, each))
        server._limits.add(each.listener, "127.0.0.1")
    monkeypatch.setattr(listener, "time", SimpleNamespace(monotonic=trio.current_time))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.reap)
        await trio.sleep(0.5)  # between two of its looks from here on
        yield node, server
        nursery.cancel_scope.cancel()


def closed(*quiet: Quiet) -> list[bool]:
    return [each.closed for each in quiet]


async def test_reaper_closes_only_idle_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Not who waits for a reply, and not who says something now and then."""
    idle, busy, waits = Quiet(), Quiet(), Quiet(waiting=True)
    settings = {"connections_max_idle_ms": "5000"}
    async with reaped(monkeypatch, tmp_path, idle, busy, waits, **settings):
        for second in range(1, 20):
            await trio.sleep(1)
            if second % 5 == 0:
                busy.activity += 1
            assert closed(idle, busy, waits) == [second >= 7, False, False]
    assert (idle.shrunk, busy.shrunk) == (1, 4)  # once each time that it falls silent


async def test_reaper_shrinks_a_sending_connection_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    slow = Quiet(sends_for=3)
    async with reaped(monkeypatch, tmp_path, slow):
        for second in range(1, 10):
            await trio.sleep(1)
            assert slow.shrunk == (second > 4)


async def test_reaper_lets_other_tasks_run_between_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Others have theirs, and who ends in one of those is left alone: its memory is gone."""
    quiet = [Quiet() for _ in range(4 * LOOKED_AT_TOGETHER_MAX)]
    looked_at = trio.Event()
    for each in quiet:
        each.when_shrunk = looked_at.set
    async with reaping(monkeypatch, tmp_path, *quiet) as (_, server):
        await looked_at.wait()
        others_turn = sum(each.shrunk for each in quiet)
        server._connections.clear()
        await trio.sleep(5)
    assert 0 < others_turn == sum(each.shrunk for each in quiet) < len(quiet)


@pytest.mark.parametrize(("idle_ms", "ends"), [("-1", False), ("0", True)])
async def test_negative_max_idle_time_closes_no_connection(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
    idle_ms: str,
    ends: bool,
) -> None:
    quiet = Quiet()
    async with reaped(monkeypatch, tmp_path, quiet, connections_max_idle_ms=idle_ms):
        await trio.sleep(100)
        assert closed(quiet) == [ends]


async def test_longest_idle_connections_are_closed_above_max_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """As many as are above it, those first who have said nothing for longest, and none of the
    listener between brokers."""
    quiet = [Quiet("A" if number == 2 else "B") for number in range(5)]
    settings = {
        "listeners": "A://:0,B://:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    plain = {name.replace(".", "_"): value for name, value in settings.items()}
    async with reaped(monkeypatch, tmp_path, *quiet, **plain) as node:
        for number in (4, 1, 3, 0):  # 2 is silent from the first
            await trio.sleep(1)
            quiet[number].activity += 1
        await trio.sleep(1)
        assert closed(*quiet) == [False] * 5
        here = {"log.dirs": str(tmp_path), "max.connections": "3"}
        node.broker.settings.config = load(overrides=settings | here)
        await trio.sleep(1)
        assert closed(*quiet) == [False, True, False, False, True]


def test_bind_error_names_host_and_port() -> None:
    with open_listening_socket("127.0.0.1", 0, 5) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"127\.0\.0\.1 port {port}") as caught:
            open_listening_socket("127.0.0.1", port, 5)
        assert caught.value.errno == errno.EADDRINUSE


def test_empty_host_binds_ipv4_and_ipv6() -> None:
    with open_listening_socket("", 0, 5) as listening:
        assert not listening.getblocking()
        port = listening.getsockname()[1]
        hosts = ["127.0.0.1"]
        if socket.has_dualstack_ipv6():
            hosts.append("::1")
        for host in hosts:
            with socket.create_connection((host, port), PATIENCE_S):
                pass
    if socket.has_dualstack_ipv6():
        with open_listening_socket("::1", 0, 5) as alone:
            assert alone.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def test_port_can_be_bound_again_at_once() -> None:
    """Though connections to it still linger (SO_REUSEADDR)."""
    address = ("127.0.0.1", free_port())
    with open_listening_socket(*address, 5) as listening:
        client = socket.create_connection(address, PATIENCE_S)
        listening.setblocking(True)
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        accepted.shutdown(socket.SHUT_RDWR)
        client.close()
        accepted.close()
    with open_listening_socket(*address, 5) as again:
        assert again.getsockname() == address


def test_host_name_binds_its_first_ipv4_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Java prefers it."""

    def found(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        four = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in ("127.0.0.1", "127.0.0.2")
        ]
        return [six, *four]

    monkeypatch.setattr("kwire.server.network.listener.socket.getaddrinfo", found)
    with open_listening_socket("a-name", 0, 5) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
