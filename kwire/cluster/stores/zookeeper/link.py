"""KazooLink: a kazoo client that delivers replies and events to the trio loop in their order.

By default kazoo runs watches and completions on separate threads.  Then a change could arrive after
the reply to a later request.  kazoo accepts a custom handler: the one here has no thread but that
of the connection, and one queue for everything that comes from ZooKeeper.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import trio
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.retry import KazooRetry

from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig

log = logging.getLogger("kwire.zookeeper")

RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_MAX_S = 1.0
FIRST_PATIENCE_S = 1.0
"""Time that a new connection may take until its first answer; doubled each time it was too short.

An answer takes milliseconds, but a connection may never be answered: a ZooKeeper that is starting
forgets connections whose first request comes before it has a database (it fails to close them), and
a host without power sends nothing.  Waiting for the session timeout would be too long."""
STOP_TIMEOUT_S = 5.0
"""Time that closing the session may take; otherwise ZooKeeper waits until the session expires."""


class KazooReply:
    """The result of a request, or its error; `get` waits for it on the loop."""

    __slots__ = ("_done", "_event", "_link", "error", "value")

    def __init__(self, link: KazooLink) -> None:
        self._link = link
        self._event: trio.Event | None = None
        self._done = False
        self.value: Any = None
        self.error: Exception | None = None

    def set(self, value: object) -> None:
        """Called by kazoo on its thread with the result."""
        self._link.hand_over(self.settle, value, None)

    def set_exception(self, error: Exception) -> None:
        """Called by kazoo with the error, on its thread or in the requesting call."""
        self._link.hand_over(self.settle, None, error)

    def settle(self, value: object, error: Exception | None) -> None:
        """Sets the result or the error; only the first call counts.

        A connection that is lost fails all its requests, so a second call may follow.
        """
        if self._done:
            return
        self._done = True
        self.value, self.error = value, error
        self._link.outstanding.discard(self)
        if self._event is not None:
            self._event.set()

    async def get(self) -> Any:  # noqa: ANN401 - each request has its own
        """Waits for the result and returns it.  Raises kazoo's exceptions."""
        if not self._done:
            self._event = trio.Event()
            await self._event.wait()
        if self.error is not None:
            raise self.error
        return self.value


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo ships no types
    """Replaces kazoo's worker threads by `KazooLink.hand_over`."""

    def __init__(self, link: KazooLink, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._link, self._tls = link, tls

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **options: object
    ) -> Any:  # noqa: ANN401 - kazoo's
        """Connect; with TLS, trust the truststore only (kazoo would also trust the system's)."""
        timeout = min(timeout, self._link.patience_s)
        if self._tls is None:
            return super().create_connection(address=address, timeout=timeout)
        connection = socket.create_connection(address, timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError:
            connection.close()
            raise

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        errors: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait for sockets with poll(); kazoo's own creates an epoll four times per request.

        A TLS socket may hold decrypted bytes, which poll() does not see: it counts as readable.
        """
        decrypted = [
            connection
            for connection in readers
            if isinstance(connection, ssl.SSLSocket) and connection.pending()
        ]
        poll = select.poll()
        for sockets, events in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for connection in sockets:
                # A closed socket has the file descriptor -1, for which this raises ValueError.
                poll.register(connection, events)
        wait_ms = 0.0 if decrypted else None if timeout is None else max(0.0, timeout * 1000)
        ready = dict(poll.poll(wait_ms))
        return (
            [
                connection
                for connection in readers
                if connection.fileno() in ready or connection in decrypted
            ],
            [connection for connection in writers if connection.fileno() in ready],
            [],
        )

    def async_result(self) -> KazooReply:
        reply = KazooReply(self._link)
        self._link.outstanding.add(reply)
        return reply

    def dispatch_callback(self, callback: Any) -> None:  # noqa: ANN401 - kazoo's
        self._link.hand_over(callback.func, *callback.args)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo ships no types
    """Notes two facts that kazoo does not report: the negotiated session timeout, and `heard_at`.

    They say by the clock when a session must have expired.  A new connection also waits
    `patience_s` for its first answer, instead of the whole session timeout as kazoo does.
    """

    patience_s = FIRST_PATIENCE_S
    session_timeout_s = 0.0
    heard_at = 0.0
    """Send time (time.monotonic) of the latest request that was answered: ZooKeeper certainly
    heard from this broker since then."""

    def __init__(self, client: KazooClient, retry: KazooRetry) -> None:
        super().__init__(client, retry, logger=log)
        self._sent: deque[float] = deque()

    def _connect(self, *where: Any) -> tuple[float, float]:  # noqa: ANN401 - kazoo's
        """Connects, and notes the session timeout and when ZooKeeper was last heard.

        Returns kazoo's read timeout and connect timeout in ms.  A server that is too slow gets
        twice the time at the next attempt.
        """
        began_at = time.monotonic()
        try:
            read_timeout_ms, connect_timeout_ms = super()._connect(*where)
        except (KazooTimeoutError, ConnectionDropped):
            if time.monotonic() - began_at >= self.patience_s:
                self.patience_s *= 2
            raise
        self.patience_s = FIRST_PATIENCE_S
        self._sent.clear()
        self.session_timeout_s = read_timeout_ms * 1.5 / 1000  # kazoo takes two thirds of it
        self.heard_at = began_at
        return read_timeout_ms, connect_timeout_ms

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:  # noqa: ANN401 - kazoo's
        """Send the first request of a connection and wait for its answer."""
        return super()._invoke(min(timeout, self.patience_s), request, xid)

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:  # noqa: ANN401 - kazoo's
        self._sent.append(time.monotonic())
        super()._submit(request, timeout, xid)

    def _read_socket(self, read_timeout: float) -> object:
        """Reads one reply or event, and updates `heard_at` if it answers a request.

        Kazoo reports neither, so the request's queue and the ping flag are compared before and
        after.
        """
        pinged, pending = self.ping_outstanding.is_set(), len(self.client._pending)
        result = super()._read_socket(read_timeout)
        answered = len(self.client._pending) < pending
        if (answered or (pinged and not self.ping_outstanding.is_set())) and self._sent:
            self.heard_at = self._sent.popleft()
        return result


class KazooLink:
    """One kazoo client with its connections and sessions.

    `on_state` is called with "CONNECTED", "SUSPENDED" or "LOST" and the session id; `on_znode` with
    the path of each watched znode that changed.  Both are called on the loop.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        on_state: Callable[[KazooLink, str, int], None],
        on_znode: Callable[[str], None],
    ) -> None:
        """`on_state` gets kazoo's state and the session id; `on_znode` a watch's path.

        Both are called on the trio loop.
        """
        self._token = trio.lowlevel.current_trio_token()
        self._handed: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.outstanding: set[KazooReply] = set()
        self._on_state, self._on_znode = on_state, on_znode
        tls = config.tls_context()
        self.client = KazooClient(
            config.servers,
            timeout=config.session_timeout_ms / 1000,
            handler=_Handler(self, tls),
            auth_data=list(config.auth),
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, max_delay=RECONNECT_DELAY_MAX_S
            ),
            logger=log,
            use_ssl=tls is not None,
        )
        self._connection = _Connection(self.client, self.client._conn_retry.copy())
        self.client._connection = self._connection
        self.client.add_listener(self._on_kazoo_state)

    def open(self) -> None:
        """Start kazoo's thread, which connects; it runs until `close`."""
        self.client.start_async()

    @property
    def patience_s(self) -> float:
        """Seconds that the next connection may take to open, and again to get its first answer."""
        return self._connection.patience_s

    def expires_at(self) -> float:
        """Time (time.monotonic) at which the session has expired if no answer comes before it."""
        return self._connection.heard_at + self._connection.session_timeout_s

    @property
    def has_ended(self) -> bool:
        """Whether kazoo has given up: ZooKeeper refused it, or an unexpected error occurred."""
        return self.client.client_state in ("CLOSED", "AUTH_FAILED")

    def hand_over(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls `function` on the loop, after all earlier calls; may be called from any thread."""
        self._handed.append((function, arguments))
        try:
            self._token.run_sync_soon(self._take, idempotent=True)
        except trio.RunFinishedError:  # the loop has ended
            self._handed.clear()

    def _take(self) -> None:
        for _ in range(len(self._handed)):
            function, arguments = self._handed.popleft()
            function(*arguments)

    def _on_kazoo_state(self, state: str) -> None:
        """Called by kazoo on its thread."""
        session = self.client.client_id
        self.hand_over(self._state_changed, state, session[0] if session else 0)

    def _state_changed(self, state: str, session_id: int) -> None:
        if state != "CONNECTED":
            self.fail_outstanding()
        self._on_state(self, state, session_id)

    def fail_outstanding(self) -> None:
        """Fail all requests without a reply.

        kazoo fails them too, but forgets requests that come between that and the next session:
        their callers would wait forever.
        """
        for reply in list(self.outstanding):
            reply.settle(None, ConnectionLoss())

    def watcher(self, event: Any) -> None:  # noqa: ANN401 - kazoo's WatchedEvent
        """The watch function of znodes.  An event without a path means that the watch is void."""
        if event.path:
            self._on_znode(event.path)

    def get(self, path: str, watch: bool) -> KazooReply:
        reply: KazooReply = self.client.get_async(path, self.watcher if watch else None)
        return reply

    def children(self, path: str, watch: bool) -> KazooReply:
        reply: KazooReply = self.client.get_children_async(path, self.watcher if watch else None)
        return reply

    def exists(self, path: str, watch: bool) -> KazooReply:
        reply: KazooReply = self.client.exists_async(path, self.watcher if watch else None)
        return reply

    def multi(self, operations: Sequence[Any]) -> KazooReply:
        """All or none of kazoo.protocol.serialization's Create, SetData, Delete, CheckVersion."""
        transaction = self.client.transaction()
        transaction.operations = list(operations)
        reply: KazooReply = transaction.commit_async()
        return reply

    async def close(self) -> None:
        """Close the session; its ephemeral znodes go at once, if ZooKeeper can be reached."""
        with trio.move_on_after(STOP_TIMEOUT_S, shield=True):
            await trio.to_thread.run_sync(self._stop, abandon_on_cancel=True)

    def _stop(self) -> None:
        """Closes the client.  If that fails, ZooKeeper ends the session after its timeout."""
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError) as problem:
            log.info("Closing the ZooKeeper session failed; it will expire: %r", problem)
