"""Accepting connections: one listening socket a listener, limits on how many, and the reaper."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from kwire.context import Context
from kwire.network.connection import Connection
from kwire.network.memory import MemoryPool
from kwire.network.readiness import ready_sockets

if TYPE_CHECKING:
    from kwire.broker import Broker

log = logging.getLogger("kwire.network.listener")

REAP_INTERVAL_S = 1.0
"""How often idle connections are looked for; a tenth of a second would buy nothing."""

DRAIN_TIMEOUT_S = 5.0
"""How long a stopping broker lets a client read the reply it is being sent."""

_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def _is_closed(listening: socket.socket) -> bool:
    return listening.fileno() < 0


class ConnectionServer:
    """All connections of the broker, over all its listeners."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._memory = MemoryPool(broker.config.queued_max_request_bytes)
        self._ready = ready_sockets(broker.timers)
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._room = trio.Event()
        self._number = 0

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def accept(self, listening: socket.socket, listener: str, nursery: trio.Nursery) -> None:
        """Accept on `listening` until it is closed, or cancelled."""
        while True:
            await self._wait_for_room()
            if _is_closed(listening):
                return
            await trio.lowlevel.wait_readable(listening)
            if _is_closed(listening):  # in the same turn in which somebody knocked
                return
            try:
                client, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as problem:
                if problem.errno not in _OUT_OF_RESOURCES:
                    raise
                log.error("cannot accept on %s: %s; trying again in 0.1 s", listener, problem)
                await trio.sleep(0.1)
                continue
            self._admit(client, address[0], address[1], listener, nursery)

    def _admit(
        self, client: socket.socket, host: str, port: int, listener: str, nursery: trio.Nursery
    ) -> None:
        config = self._broker.config
        if self._per_address[host] >= config.max_connections_per_ip:
            log.warning(
                "refusing %s: max.connections.per.ip=%d", host, config.max_connections_per_ip
            )
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.given("socket.send.buffer.bytes") and config.socket_send_buffer_bytes != -1:
            # Kafka's default of 100 kB is not imposed: with what the kernel chooses by itself a
            # fetch of 1 MB waits once for room instead of nine times, and is twice as fast.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
        host = host.removeprefix("::ffff:")  # an IPv4 client of a socket that takes both
        local = client.getsockname()
        self._number += 1
        context = Context(
            listener=listener,
            client_host=host,
            connection_id=f"{local[0]}:{local[1]}-{host}:{port}-{self._number}",
        )
        connection = Connection(self._broker, client, context, self._memory, self._ready)
        self._connections.add(connection)
        self._per_address[host] += 1
        nursery.start_soon(self._run, connection, name=context.connection_id)

    async def _run(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            host = connection.context.client_host
            self._per_address[host] -= 1
            if not self._per_address[host]:
                del self._per_address[host]
            self._room.set()

    async def _wait_for_room(self) -> None:
        """`max.connections`: above it nothing is accepted until somebody goes, as in Kafka."""
        while len(self._connections) >= self._broker.config.max_connections:
            self._room = trio.Event()
            await self._room.wait()

    async def serve_ready(self) -> None:
        """Answer whoever has sent something; runs as long as there are connections."""
        await self._ready.run()

    async def reap(self) -> None:
        """Close what has neither read nor written for `connections.max.idle.ms`."""
        seen: dict[Connection, _LastActivity] = {}
        while True:
            await trio.sleep(REAP_INTERVAL_S)
            now = time.monotonic()
            idle_s = self._broker.config.connections_max_idle_ms / 1000
            current: dict[Connection, _LastActivity] = {}
            for connection in self._connections:
                last = seen.get(connection)
                if last is None or last.activity != connection.activity:
                    last = _LastActivity(connection.activity, now)
                else:
                    connection.shrink_if_idle()
                    if idle_s >= 0 and now - last.since > idle_s and not connection.waiting:
                        log.info("closing %s: idle", connection.context.connection_id)
                        connection.scope.cancel()
                current[connection] = last
            seen = current

    async def drain(self) -> None:
        """End every connection, those that are being sent a reply once they have it."""
        with trio.move_on_after(DRAIN_TIMEOUT_S):
            while True:
                busy = False
                for connection in self._connections:
                    if connection.sending:
                        busy = True
                    else:
                        connection.scope.cancel()
                if not busy:
                    return
                await trio.sleep(0.01)


@dataclass(slots=True)
class _LastActivity:
    activity: int
    since: float


def _bind_address(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """The first address of `host`, IPv4 before IPv6 as Java prefers it."""
    if not host:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        return family, ("", port)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return found[0][0], (str(found[0][4][0]), port)


def open_listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    """A bound, non-blocking, listening socket; an empty `host` is every interface.

    Raises OSError with a sentence that says which listener could not be had.
    """
    family, address = _bind_address(host, port)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        listening.bind(address)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as problem:
        listening.close()
        raise OSError(
            problem.errno,
            f"cannot listen on {host or 'every interface'} port {port}: {problem.strerror}",
        ) from None
    return listening
