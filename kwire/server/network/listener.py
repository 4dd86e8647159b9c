"""Accepts connections on all listeners, and closes idle ones (the reaper).

kwire.server.network.limits decides which connections are accepted.
"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from kwire.requests.context import Context
from kwire.server.network.arrivals import OUT_OF_RESOURCES, Arrivals
from kwire.server.network.connection import Connection
from kwire.server.network.limits import ConnectionLimits, canonical_address, resolve
from kwire.server.network.logins import Logins
from kwire.server.network.memory import MemoryPool
from kwire.server.network.readiness import ready_sockets
from kwire.server.network.transport import PlainTransport

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.security.quotas.enforced import ClientQuotas
    from kwire.server.network.tls_listeners import TlsListeners
    from kwire.server.tls.handshake import Handshakes
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control

log = logging.getLogger("kwire.network.listener")

REAP_INTERVAL_S = 1.0
"""The time between two searches for idle connections."""

DRAIN_TIMEOUT_S = 5.0
"""How long a stopping broker waits for clients to read the replies that are being sent."""

ROOM_CHECK_INTERVAL_S = 0.25
"""How often a full listener checks for room: a changed setting or the passing of time may give
some. A connection that ends wakes the listener at once."""

LOOKED_AT_TOGETHER_MAX = 256
"""The connections that the reaper checks before other tasks run: some 0.3 ms of work."""

ACCEPTED_TOGETHER_MAX = 32
"""The connections that one listener accepts before other tasks run: some 3 ms of work."""

BACKLOG = 4096
"""The backlog if `socket.listen.backlog.size` is not set.  Kafka's 50 is full as soon as a process
with many clients starts, and the kernel lets a client that does not fit try again after a second.
The kernel's limit is net.core.somaxconn, 4,096 on Linux; an unused place costs nothing."""

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")

_Address = tuple[Any, ...]


async def _wait_for_resources(listener: str, error: OSError) -> None:
    """Wait until there may be descriptors or memory again; raises any other error."""
    if error.errno not in OUT_OF_RESOURCES:
        raise error
    log.error("cannot accept on %s: %s; trying again in 0.1 s", listener, error)
    await trio.sleep(0.1)


def _is_closed(listening: socket.socket) -> bool:
    return listening.fileno() < 0


class ConnectionServer:
    """All connections of the broker, of all its listeners.

    logins   the SASL authentication of listeners
    tls      the TLS listeners, or None if the broker has none
    """

    def __init__(self, broker: Broker, control: Control | None = None) -> None:
        """Prepare the server of a broker's listeners; `control` is for tests' faults and traces."""
        self._broker = broker
        self._control = control
        self._memory = MemoryPool(broker.config.queued_max_request_bytes)
        self._ready = ready_sockets(broker.node.timers, broker.node.shared_work)
        self._connections: set[Connection] = set()
        broker.on_acls_changed = self._forget_shortcuts
        self._limits = ConnectionLimits(broker.config)
        self._full = trio.lowlevel.ParkingLot()
        broker.configs.on_quotas = self.enforce
        self._number = 0
        self.logins = Logins(broker)
        self.tls = _tls_listeners(broker)

    async def accept(self, listening: socket.socket, listener: str, nursery: trio.Nursery) -> None:
        """Accept connections on `listening`, and serve them in `nursery`, until it is closed."""
        if self.tls is not None and self.tls.has(listener):
            await self._accept_newest_first(listening, listener, self.tls.handshakes, nursery)
            return
        while True:
            await self._wait_for_room(listener)
            if _is_closed(listening):
                return
            await trio.lowlevel.wait_readable(listening)
            if _is_closed(listening):  # it was closed after a connection had arrived
                return
            try:
                self._accept_some(listening, listener, nursery)
            except OSError as error:
                await _wait_for_resources(listener, error)

    async def _accept_newest_first(
        self,
        listening: socket.socket,
        listener: str,
        handshakes: Handshakes,
        nursery: trio.Nursery,
    ) -> None:
        """Like `accept`, for a TLS listener, where admission is expensive.

        Few more connections are admitted than handshakes can be computed.  The newest is always
        admitted, and its handshake is computed first: see kwire.server.network.arrivals.
        """
        arrivals = Arrivals(partial(self._has_room, listener))
        try:
            while True:
                if arrivals:
                    await handshakes.breathe()
                else:
                    await self._wait_for_room(listener)
                    if _is_closed(listening):
                        return
                    await trio.lowlevel.wait_readable(listening)
                if _is_closed(listening):
                    return
                try:
                    arrivals.take(listening)
                    for client, address in arrivals.newest(few=handshakes.are_many):
                        self._admit_or_close(client, address, listener, nursery)
                except OSError as error:
                    await _wait_for_resources(listener, error)
        finally:
            arrivals.close()

    def _accept_some(self, listening: socket.socket, listener: str, nursery: trio.Nursery) -> None:
        """Accept the clients that wait, up to `ACCEPTED_TOGETHER_MAX` and the limits.

        The maximum lets other tasks run in between. Raises OSError if the process lacks resources.
        """
        for _ in range(ACCEPTED_TOGETHER_MAX):
            if not self._has_room(listener):
                return
            try:
                client, address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            self._admit_or_close(client, address, listener, nursery)

    def _admit_or_close(
        self, client: socket.socket, address: _Address, listener: str, nursery: trio.Nursery
    ) -> None:
        """Admit an accepted client; close it if the socket fails, most often as it has gone.

        Raises OSError if the process lacks resources, so that the caller can pause.
        """
        try:
            self._admit(client, address[0], address[1], listener, nursery)
        except OSError as error:
            client.close()
            if error.errno in OUT_OF_RESOURCES:
                raise
            # macOS raises when the client has closed already.
            log.debug("%s:%s closed its connection at once: %s", *address[:2], error)

    def _admit(
        self, client: socket.socket, host: str, port: int, listener: str, nursery: trio.Nursery
    ) -> None:
        """Start the task of a new connection, unless its IP address has too many.

        A client above `max.connections.per.ip` is closed at once; one above the quota on new
        connections is closed after the throttle time. Raises OSError.
        """
        host = canonical_address(host)
        limits = self._limits
        limits.note_new(listener)
        limit = limits.limit_reached(host)
        if limit is not None:
            log.info("refusing %s: it has its %d connections (max.connections.per.ip)", host, limit)
            self._refused(listener)
            client.close()
            return
        quotas = self._broker.configs.quotas
        throttle_ms = 0 if quotas is None else quotas.addresses.throttle_ms(host)
        if throttle_ms:
            log.info("%s has too many new connections (connection_creation_rate)", host)
            self._refused(listener)
            nursery.start_soon(_close_later, client, throttle_ms)
            return
        self._prepare(client)
        local = client.getsockname()
        self._number += 1
        context = Context(
            listener=listener,
            client_host=host,
            connection_id=f"{local[0]}:{local[1]}-{host}:{port}-{self._number}",
        )
        connection = self._connect(client, context)
        if quotas is not None:
            _add_quota_gate(connection, quotas)
        self._connections.add(connection)
        limits.add(listener, host)
        connection.begin(nursery, self._ended)

    def _refused(self, listener: str) -> None:
        """Does nothing; called for each connection that a limit refuses."""

    def own_client(self, nursery: trio.Nursery) -> socket.socket:
        """Return the client's end of a connection with all rights, which belongs to no listener."""
        from kwire.server.network.own import OwnConnection, own_context

        client, served = socket.socketpair()
        served.setblocking(False)
        context = own_context(self._broker.config)
        transport = PlainTransport(served)
        connection = OwnConnection(self._broker, transport, context, self._memory, self._ready)
        connection.begin(nursery, _nothing_else)
        return client

    def _connect(self, client: socket.socket, context: Context) -> Connection:
        """Return the connection of a client: controlled by a test, inside TLS, or plain."""
        memory, ready, log_in = self._memory, self._ready, self.logins.of(context.listener)
        if self._control is not None:
            return self._connect_controlled(self._control, client, context)
        if self.tls is not None and self.tls.has(context.listener):
            return self.tls.connection(client, context, memory, ready, log_in)
        return Connection(self._broker, PlainTransport(client), context, memory, ready, log_in)

    def _connect_controlled(
        self, control: Control, client: socket.socket, context: Context
    ) -> Connection:
        """Return a connection into which a test may inject faults."""
        from kwire.server.network.controlled import ControlledConnection, ControlledTlsConnection

        memory, ready, log_in = self._memory, self._ready, self.logins.of(context.listener)
        if self.tls is not None and self.tls.has(context.listener):
            kind = ControlledTlsConnection
            encrypted = self.tls.connection(client, context, memory, ready, log_in, kind)
            assert isinstance(encrypted, ControlledTlsConnection)
            encrypted.control = control
            return encrypted
        transport = PlainTransport(client)
        plain = ControlledConnection(self._broker, transport, context, memory, ready, log_in)
        plain.control = control
        return plain

    def _forget_shortcuts(self) -> None:
        for connection in self._connections:
            connection.forget()

    def _prepare(self, client: socket.socket) -> None:
        """Set the options of a client's socket. Raises OSError."""
        config = self._broker.config
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.given("socket.send.buffer.bytes") and config.socket_send_buffer_bytes != -1:
            # Kafka's default of 100 kB is not applied: with the size that the kernel chooses, a
            # fetch of 1 MB waits for room once instead of nine times, and is twice as fast.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)

    def enforce(self, quotas: ClientQuotas) -> None:
        """Enforce the first quotas on open connections, too."""
        for connection in self._connections:
            _add_quota_gate(connection, quotas)

    def _ended(self, connection: Connection) -> None:
        """Forget a connection; listeners that were at their limit go on to accept."""
        self._connections.discard(connection)
        context = connection.context
        self._limits.remove(context.listener, context.client_host)
        self._broker.disconnected(context.connection_id)
        if context.on_end is not None:
            context.on_end()
        self._full.unpark_all()

    def _has_room(self, listener: str, waiting: int = 0) -> bool:
        self._limits.follow(self._broker.config)
        return self._limits.has_room(listener, waiting)

    async def _wait_for_room(self, listener: str) -> None:
        """Wait until the limits allow one more connection, as Apache Kafka does."""
        while not self._has_room(listener):
            with trio.move_on_after(ROOM_CHECK_INTERVAL_S):
                await self._full.park()

    async def serve_ready(self) -> None:
        """Serve readable connections until cancelled."""
        await self._ready.run()

    async def reap(self) -> None:
        """Close idle connections, and those above a lowered `max.connections`, until cancelled.

        A connection is idle if it has neither read nor written for `connections.max.idle.ms`.
        """
        seen: dict[Connection, _LastActivity] = {}
        while True:
            await trio.sleep(REAP_INTERVAL_S)
            now = time.monotonic()
            self._limits.follow(self._broker.config)
            await self._limits.resolve_names()
            if (
                self._broker.configs.quotas is not None
                and self._broker.configs.quotas.addresses.unresolved
            ):
                await resolve(self._broker.configs.quotas.addresses)
            idle_s = self._broker.config.connections_max_idle_ms / 1000
            current: dict[Connection, _LastActivity] = {}
            for number, connection in enumerate(list(self._connections), 1):
                if number % LOOKED_AT_TOGETHER_MAX == 0:
                    await trio.lowlevel.checkpoint()
                if connection not in self._connections:
                    continue  # it has ended meanwhile
                last = seen.get(connection)
                if last is None or last.activity != connection.activity:
                    last = _LastActivity(connection.activity, now)
                else:
                    last.shrunk = last.shrunk or connection.shrink_if_idle()
                    if idle_s >= 0 and now - last.since > idle_s and not connection.waiting:
                        log.info("closing %s: idle", connection.context.connection_id)
                        connection.close()
                current[connection] = last
            seen = current
            if excess := self._limits.excess():
                self._close_longest_idle(current, excess)

    def _close_longest_idle(self, seen: dict[Connection, _LastActivity], count: int) -> None:
        """Close `count` connections, those that have been idle for longest first.

        Listeners that the limits exempt, as that between brokers, keep theirs.
        """
        ordered = sorted(seen, key=lambda connection: seen[connection].since)
        for connection in ordered:
            if count and self._limits.may_be_closed(connection.context.listener):
                log.info("closing %s: above max.connections", connection.context.connection_id)
                connection.close()
                count -= 1

    async def drain(self) -> None:
        """Close every connection; one with a reply under way is closed after its last byte.

        After DRAIN_TIMEOUT_S it returns, and the caller cancels the rest.
        """
        with trio.move_on_after(DRAIN_TIMEOUT_S):
            while True:
                busy = False
                for connection in list(self._connections):
                    if connection.sending:
                        busy = True
                    else:
                        connection.close()
                if not busy:
                    return
                await trio.sleep(0.01)

    def close(self) -> None:
        """Close every connection; those with a task end in it."""
        for connection in list(self._connections):
            connection.close()


def _tls_listeners(broker: Broker) -> TlsListeners | None:
    """Return the broker's TLS listeners, or None if it has none.  Raises ConfigError."""
    protocols = [endpoint.security_protocol for endpoint in broker.config.listeners]
    if not any(protocol.endswith("SSL") for protocol in protocols):
        return None
    from kwire.server.network.tls_listeners import TlsListeners

    return TlsListeners(broker)


async def _close_later(client: socket.socket, throttle_ms: int) -> None:
    """Close a connection after a delay, as Apache Kafka does: closed at once, the client would
    only connect again sooner."""
    with client:
        await trio.sleep(throttle_ms / 1000)


def _nothing_else(_: Connection) -> None:
    """What the end of the broker's own connection entails."""


def _add_quota_gate(connection: Connection, quotas: ClientQuotas) -> None:
    from kwire.server.network.quota_gate import QuotaGate

    connection.gate = QuotaGate(connection, quotas, connection.gate)


@dataclass(slots=True)
class _LastActivity:
    """A connection's `activity` when the reaper saw it change, and the time of that."""

    activity: int
    since: float
    shrunk: bool = False
    """Whether the connection has returned its memory since then."""


def _bind_address(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """Return the first address of `host`, IPv4 before IPv6 as Java prefers it."""
    if not host:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        return family, ("", port)
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return addresses[0][0], (str(addresses[0][4][0]), port)


def backlog_of(config: BrokerConfig) -> int:
    """Return the number of connections that the kernel holds for a listener until they are
    accepted.

    Logs a warning if the system's limit is below the setting.
    """
    if config.given("socket.listen.backlog.size") is None:
        return BACKLOG
    wanted = config.socket_listen_backlog_size
    try:
        most = int(SOMAXCONN.read_text())
    except (OSError, ValueError):  # not Linux, or no /proc
        return wanted
    if wanted > most:
        log.warning(
            "socket.listen.backlog.size=%d, but the system allows %d: raise net.core.somaxconn",
            wanted,
            most,
        )
    return wanted


def open_listening_socket(
    host: str, port: int, backlog: int, receive_buffer_bytes: int = -1
) -> socket.socket:
    """Return a bound, non-blocking, listening socket; an empty `host` means every interface.

    `receive_buffer_bytes` is that of accepted sockets; -1 leaves it to the system.  Raises OSError,
    whose message names the host and port.
    """
    family, address = _bind_address(host, port)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # as in Java, [::] includes every interface of IPv4
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if receive_buffer_bytes != -1:  # before listen(): TCP window scaling depends on it
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        listening.bind(address)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno,
            f"cannot listen on {host or 'every interface'} port {port}: {error.strerror}",
        ) from None
    return listening
