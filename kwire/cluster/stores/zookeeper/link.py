"""kazoo on a trio loop: a client whose threads hand everything over, in the order it came in.

kazoo runs watches and completions on a thread each, so that a change could be told after the reply
to a question that was asked later.  Its interface for handlers lets another take their place: this
one has no threads but that of the connection, and one queue for all that it hears.
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
"""How long a connection may be without an answer before another one is tried; twice as long each
time that it was too short.  One that answers takes milliseconds, and who is never answered must not
wait for as long as the session lasts: a ZooKeeper that starts forgets connections whose first
request comes while it has no database yet (it fails to close them), and a host without power says
nothing at all."""
STOP_TIMEOUT_S = 5.0
"""How long a goodbye may take; without it ZooKeeper waits for the session to expire."""


class Reply:
    """What a request came to; on the loop."""

    __slots__ = ("_done", "_event", "_link", "error", "value")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._event: trio.Event | None = None
        self._done = False
        self.value: Any = None
        self.error: Exception | None = None

    def set(self, value: object) -> None:
        """kazoo has it; on its thread."""
        self._link.hand_over(self.settle, value, None)

    def set_exception(self, error: Exception) -> None:
        """kazoo has it; on its thread, or at once."""
        self._link.hand_over(self.settle, None, error)

    def settle(self, value: object, error: Exception | None) -> None:
        if self._done:
            return
        self._done = True
        self.value, self.error = value, error
        self._link.outstanding.discard(self)
        if self._event is not None:
            self._event.set()

    async def get(self) -> Any:  # noqa: ANN401 - each request has its own
        """Raises kazoo's exceptions."""
        if not self._done:
            self._event = trio.Event()
            await self._event.wait()
        if self.error is not None:
            raise self.error
        return self.value


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo ships no types
    """In the place of kazoo's worker threads."""

    def __init__(self, link: Link, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._link, self._tls = link, tls

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **options: object
    ) -> Any:  # noqa: ANN401 - kazoo's
        """Of TLS kazoo's own would trust who the system trusts, besides the truststore."""
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
        """kazoo asks four times for each request, and makes a whole epoll each time.

        Of TLS some may be decrypted already, of which the file descriptor knows nothing.
        """
        decrypted = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        poll = select.poll()
        for sockets, events in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for each in sockets:
                poll.register(each, events)  # one that is closed is a ValueError: -1 is no file
        wait_ms = 0.0 if decrypted else None if timeout is None else max(0.0, timeout * 1000)
        ready = dict(poll.poll(wait_ms))
        return (
            [each for each in readers if each.fileno() in ready or each in decrypted],
            [each for each in writers if each.fileno() in ready],
            [],
        )

    def async_result(self) -> Reply:
        reply = Reply(self._link)
        self._link.outstanding.add(reply)
        return reply

    def dispatch_callback(self, callback: Any) -> None:  # noqa: ANN401 - kazoo's
        self._link.hand_over(callback.func, *callback.args)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo ships no types
    """Notes what kazoo knows and does not tell: the timeout agreed on, and the last sign of life.

    Without it nobody could say by the clock when a session must have expired.  And it waits less
    long for a connection's answer than kazoo does, which gives up when the session is over.
    """

    patience_s = FIRST_PATIENCE_S
    session_timeout_s = 0.0
    heard_at = 0.0
    """When ZooKeeper has heard of us for certain: the answer to what was sent then has come."""

    def __init__(self, client: KazooClient, retry: KazooRetry) -> None:
        super().__init__(client, retry, logger=log)
        self._sent: deque[float] = deque()

    def _connect(self, *where: Any) -> tuple[float, float]:  # noqa: ANN401 - kazoo's
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
        """What a connection begins with, as far as the answer."""
        return super()._invoke(min(timeout, self.patience_s), request, xid)

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:  # noqa: ANN401 - kazoo's
        self._sent.append(time.monotonic())
        super()._submit(request, timeout, xid)

    def _read_socket(self, read_timeout: float) -> object:
        pinged, pending = self.ping_outstanding.is_set(), len(self.client._pending)
        result = super()._read_socket(read_timeout)
        answered = len(self.client._pending) < pending
        if (answered or (pinged and not self.ping_outstanding.is_set())) and self._sent:
            self.heard_at = self._sent.popleft()
        return result


class Link:
    """One kazoo client, through as many connections and sessions as it has.

    `on_state` hears "CONNECTED", "SUSPENDED" and "LOST" with the session's id; `on_znode` the path
    of each znode that a watch was left on and that changed.  Both on the loop.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        on_state: Callable[[Link, str, int], None],
        on_znode: Callable[[str], None],
    ) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._handed: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.outstanding: set[Reply] = set()
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
        self.client.add_listener(self._listen)

    def open(self) -> None:
        """Begin to connect; kazoo's thread goes on until `close`."""
        self.client.start_async()

    @property
    def patience_s(self) -> float:
        """How long the next connection may take to be made, and then to be answered."""
        return self._connection.patience_s

    def expires_at(self) -> float:
        """When the session must have expired, unless something is heard, by time.monotonic()."""
        return self._connection.heard_at + self._connection.session_timeout_s

    @property
    def has_ended(self) -> bool:
        """kazoo will not connect again: it was refused, or met what it did not expect."""
        return self.client.client_state in ("CLOSED", "AUTH_FAILED")

    def hand_over(self, function: Callable[..., object], *arguments: object) -> None:
        """Have it called on the loop, after all that was handed over before; from any thread."""
        self._handed.append((function, arguments))
        try:
            self._token.run_sync_soon(self._take, idempotent=True)
        except trio.RunFinishedError:  # nobody is left to hear it
            self._handed.clear()

    def _take(self) -> None:
        for _ in range(len(self._handed)):
            function, arguments = self._handed.popleft()
            function(*arguments)

    def _listen(self, state: str) -> None:
        """On kazoo's thread."""
        session = self.client.client_id
        self.hand_over(self._hear, state, session[0] if session else 0)

    def _hear(self, state: str, session_id: int) -> None:
        if state != "CONNECTED":
            self.fail_outstanding()
        self._on_state(self, state, session_id)

    def fail_outstanding(self) -> None:
        """kazoo fails what it was asked; not what comes in between its doing so and a new session,
        which is forgotten.  Nobody may wait for that."""
        for reply in list(self.outstanding):
            reply.settle(None, ConnectionLoss())

    def watcher(self, event: Any) -> None:  # noqa: ANN401 - kazoo's WatchedEvent
        """To be left on znodes.  An event without a path tells that the watch is void."""
        if event.path:
            self._on_znode(event.path)

    def get(self, path: str, watch: bool) -> Reply:
        reply: Reply = self.client.get_async(path, self.watcher if watch else None)
        return reply

    def children(self, path: str, watch: bool) -> Reply:
        reply: Reply = self.client.get_children_async(path, self.watcher if watch else None)
        return reply

    def exists(self, path: str, watch: bool) -> Reply:
        reply: Reply = self.client.exists_async(path, self.watcher if watch else None)
        return reply

    def multi(self, operations: Sequence[Any]) -> Reply:
        """All or none of kazoo.protocol.serialization's Create, SetData, Delete, CheckVersion."""
        transaction = self.client.transaction()
        transaction.operations = list(operations)
        reply: Reply = transaction.commit_async()
        return reply

    async def close(self) -> None:
        """Say goodbye: what is ephemeral goes at once, if ZooKeeper can be reached."""
        with trio.move_on_after(STOP_TIMEOUT_S, shield=True):
            await trio.to_thread.run_sync(self._stop, abandon_on_cancel=True)

    def _stop(self) -> None:
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError) as problem:
            log.info("ZooKeeper's session was not closed: %r", problem)
