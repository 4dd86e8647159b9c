"""Peer: sends requests to one other broker; `await peer.call(request)` returns the reply.

A peer connects at the first call and asks which versions the other broker supports.  After a
failure it waits before it connects again (`reconnect.backoff.ms`, doubled up to
`reconnect.backoff.max.ms`; the defaults of Kafka's clients).  A request that is not answered in
time closes the connection, as in Kafka's own client: replies come in order, so the next one would
be late too.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from kwire.client.connection import reason_of
from kwire.cluster.peers.connection import PeerConnection, PeerTraffic
from kwire.cluster.peers.error import PeerError

if TYPE_CHECKING:
    from kwire.client.connection import Request
    from kwire.cluster.metadata.image import Endpoint
    from kwire.cluster.peers.tls import PeerTls
    from kwire.server.tls.transport import TlsTransport


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Timeouts and limits of a peer."""

    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    calls_max: int = 100
    """Calls that may wait at once, so that they do not pile up for a broker that hangs (Kafka's
    sender of transaction markers allows as many in flight)."""
    receive_buffer_bytes: int = -1
    """SO_RCVBUF; -1 leaves it to the system."""


LogIn = Callable[[PeerConnection], Awaitable[float]]


class Peer:
    """One connection to one broker, opened again when it is lost or the address has changed."""

    def __init__(
        self,
        broker_id: int,
        address: Callable[[], Endpoint | None],
        *,
        client_id: str,
        limits: PeerLimits | None = None,
        tls: PeerTls | None = None,
        log_in: LogIn | None = None,
        name: str | None = None,
        traffic: PeerTraffic | None = None,
    ) -> None:
        """`address` returns the broker's present endpoint, None if the broker is not alive.

        `log_in` runs on each new connection, and returns until when it may be used.  `name` is for
        messages, `broker N` by default.  What the connections carry is added to `traffic`.
        """
        self._traffic = traffic or PeerTraffic()
        self._name = name or f"broker {broker_id}"
        self._tls = tls
        self._log_in = log_in
        self._ends_s = math.inf
        self.broker_id = broker_id
        self.client_id = client_id
        self._address = address
        self._limits = limits or PeerLimits()
        self._connecting = trio.Lock()
        self._connection: PeerConnection | None = None
        self._connected_to: Endpoint | None = None
        self._calls = 0
        self._failures = 0
        self._attempts = 0
        self._last_failure: PeerError | None = None
        self._not_before = 0.0

    def __repr__(self) -> str:
        return f"Peer({self.broker_id}, {self.client_id!r})"

    @property
    def waiting(self) -> int:
        """Number of calls that have no answer yet."""
        return self._calls

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open."""
        return self._connection is not None and self._connection.failure is None

    @property
    def has_broken(self) -> bool:
        """Whether the other broker closed the connection, and no call has noticed it yet."""
        return self.is_connected and self._connection is not None and self._connection.has_broken

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The versions that the other broker serves of each API key; empty while not connected."""
        connection = self._live()
        return {} if connection is None else connection.versions

    async def call(
        self, request: Request, *, version_max: int | None = None, timeout_ms: int | None = None
    ) -> Any:  # noqa: ANN401 - the response class belongs to the request
        """Sends `request` in the highest common version; returns the reply.  Raises PeerError."""
        limits = self._limits
        if self._calls >= limits.calls_max:
            raise PeerError(self._peer_name(), f"{limits.calls_max} requests already wait for it")
        if timeout_ms is None:
            timeout_ms = limits.request_timeout_ms
        self._calls += 1
        try:
            connection = self._live() or await self._connect()
            version = connection.version_for(request, version_max)
            with trio.move_on_after(timeout_ms / 1000):
                return await connection.call(request, version)
            raise connection.fail(f"no answer within {timeout_ms} ms")
        finally:
            self._calls -= 1

    async def version_for(self, request: Request) -> int:
        """The version that `call` would send `request` in.  Raises PeerError."""
        connection = self._live() or await self._connect()
        return connection.version_for(request, None)

    def close(self) -> None:
        """Close the connection and fail waiting calls; the next call opens a new one."""
        if self._connection is not None:
            self._connection.fail("the connection is not needed any longer")
            self._connection = None

    def _live(self) -> PeerConnection | None:
        """Return the open connection; None if a new one has to be opened.

        Closes a connection to a former address, and one whose login ends soon once no call uses it.
        """
        connection = self._connection
        if connection is None or connection.failure is not None:
            return None
        if self._address() != self._connected_to:
            connection.fail("its address has changed")
            return None
        if self._ends_s <= trio.current_time() and connection.idle:
            connection.fail("its login ends soon")
            return None
        return connection

    async def _connect(self) -> PeerConnection:
        """Return a connection that is ready for requests; opens one if necessary.

        Callers that wait for the same attempt share its failure.
        """
        attempts = self._attempts
        async with self._connecting:
            connection = self._live()
            if connection is not None:
                return connection
            if self._attempts != attempts and self._last_failure is not None:
                raise self._last_failure
            await trio.sleep_until(self._not_before)
            endpoint = self._address()
            try:
                connection = await self._open(endpoint)
            except PeerError as failure:
                self._note_failure(failure)
                raise
            self._connection, self._connected_to = connection, endpoint
            self._failures, self._last_failure = 0, None
            self._traffic.opened += 1
            return connection

    def _note_failure(self, failure: PeerError) -> None:
        """Sets the pause before the next attempt to connect.

        The pause doubles with each failure, up to reconnect.backoff.max.ms.
        """
        limits = self._limits
        # The limit of 16 keeps the number small; the maximum is reached long before.
        pause_ms = limits.reconnect_backoff_ms * 2 ** min(self._failures, 16)
        pause_ms = min(pause_ms, limits.reconnect_backoff_max_ms)
        self._not_before = trio.current_time() + pause_ms / 1000
        self._failures += 1
        self._traffic.failed += 1
        self._attempts += 1
        self._last_failure = failure

    async def _open(self, endpoint: Endpoint | None) -> PeerConnection:
        """Return a new connection, with API versions negotiated and logged in.

        `endpoint` is None if the broker is not alive.  Raises PeerError.
        """
        if endpoint is None:
            raise PeerError(self._peer_name(), "it is not a live broker of this cluster")
        peer_name = f"{self._peer_name()} at {endpoint.host}:{endpoint.port}"
        try:
            with trio.fail_after(self._limits.connect_timeout_ms / 1000):
                client: socket.socket | TlsTransport
                client = plain = await self._socket_to(endpoint)
                if self._tls is not None:
                    client = await self._inside(self._tls, plain, endpoint.host)
        except trio.TooSlowError:
            raise PeerError(
                peer_name, f"no connection within {self._limits.connect_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise PeerError(peer_name, reason_of(error)) from error
        connection = PeerConnection(client, peer_name, self.client_id, self._traffic)
        try:
            # One limit for ApiVersions and login together.
            with trio.move_on_after(self._limits.request_timeout_ms / 1000) as scope:
                await connection.negotiate()
                if self._log_in is not None:
                    self._ends_s = await self._log_in(connection)
        except trio.Cancelled:
            connection.fail("the call that opened it was cancelled")
            raise
        if scope.cancelled_caught:
            raise connection.fail("no answer in time to ApiVersions or to the login")
        return connection

    async def _socket_to(self, endpoint: Endpoint) -> socket.socket:
        """Return a connected, non-blocking socket.  Raises OSError."""
        stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        client = socket.socket(fileno=stream.socket.detach())
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._limits.receive_buffer_bytes > 0:
            size_bytes = self._limits.receive_buffer_bytes
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
        return client

    async def _inside(self, tls: PeerTls, client: socket.socket, host: str) -> TlsTransport:
        """Return TLS over a connected socket; closes the socket if the handshake fails."""
        try:
            return await tls.begin(client, host)
        except BaseException:  # also where it takes too long
            client.close()
            raise

    def _peer_name(self) -> str:
        return self._name
