"""An HTTP/1.1 server on trio, for the endpoints of a broker and for the schema registry.

It uses h11, which has all of HTTP that the endpoints need and no dependencies.  An endpoint shares
the loop with the broker's clients, so everything is limited: connections, the head and the body of
a request, and, if the endpoint wants it, the time until a request has arrived and its reply is
sent.
"""

from __future__ import annotations

import json
import logging
import math
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache, partial
from typing import Final, NamedTuple

import h11
import trio

from kwire.server.http.messages import Admit, Answer, HttpError, HttpReply, HttpRequest, Refuse

READ_BYTES: Final = 65_536
HEAD_BYTES_MAX: Final = 16 * 1024
"""The largest head of a request: its line and its headers."""
NOT_STORED: Final = (("server", "kwire"), ("cache-control", "no-store"))
NO_CONTENT: Final = 204
"""The status of a response without a Content-Length (RFC 9110, 8.6)."""


class HttpLimits(NamedTuple):
    """The limits of one endpoint."""

    body_bytes: int
    """The largest body of a request."""
    connections: int
    """The most open connections; a further one gets the status 503 and is closed."""
    idle_s: float | None
    """The most seconds on trio's clock until a whole request has arrived, and until its reply is
    taken by the client; None for no limit, where that clock can jump."""
    passed_over_bytes: int = 0
    """How much of a larger or refused body is read before its client gets the response.  Most
    clients read a response only when they have sent everything."""
    head_bytes: int = HEAD_BYTES_MAX


def _refused(status: int, reason: str) -> HttpReply:
    """The reply to a request that the server refuses."""
    return HttpError(status, reason).reply()


class HttpServer:
    """Serves one endpoint; `name` names it in the log."""

    def __init__(
        self,
        name: str,
        answer: Answer,
        limits: HttpLimits,
        *,
        admit: Admit = lambda request: None,
        refuse: Refuse = _refused,
        tls: ssl.SSLContext | None = None,
        headers: Sequence[tuple[str, str]] = NOT_STORED,
    ) -> None:
        """`admit` is called with the head of a request that has a body, before it is read.
        `refuse` makes the server's own errors.  `headers` are in every reply."""
        self._name = name
        self._answer = answer
        self._admit = admit
        self._refuse = refuse
        self._limits = limits
        self._tls = tls
        self._headers = [*headers]
        self._open = 0
        self._idle: set[trio.CancelScope] = set()
        """Connections that wait for the begin of a request."""
        self._is_stopping = False
        self._log = logging.getLogger(f"kwire.{name}")

    async def serve(
        self, host: str, port: int, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; `task_status` gets the port.

        Raises OSError with a message if the port is not available.
        """
        async with trio.open_nursery() as nursery:
            try:
                listeners = await trio.open_tcp_listeners(port, host=host or None)
            except OSError as problem:
                raise OSError(
                    problem.errno, f"cannot listen on {host} port {port}: {problem.strerror}"
                ) from None
            if port == 0:  # each address of the host got another port, and one is announced
                for other in listeners[1:]:
                    await other.aclose()
                del listeners[1:]
            port = listeners[0].socket.getsockname()[1]
            shown = f"[{host}]" if ":" in host else host
            self._log.info("http://%s:%d serves the %s", shown, port, self._name)
            await nursery.start(trio.serve_listeners, self._serve_client, listeners)
            task_status.started(port)

    async def serve_until(
        self, listener: trio.SocketListener, stopped: trio.Event, stop_s: float
    ) -> None:
        """Serve until `stopped`; requests that have begun have `stop_s` seconds more."""
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(
                    partial(
                        trio.serve_listeners,
                        self._serve_client,
                        [listener],
                        handler_nursery=connections,
                    )
                )
                await stopped.wait()
                accepting.cancel_scope.cancel()
            self._is_stopping = True
            connections.cancel_scope.deadline = trio.current_time() + stop_s
            for scope in [*self._idle]:
                scope.cancel()

    async def _serve_client(self, socket_stream: trio.SocketStream) -> None:
        """Serve one connection; catches every exception: an error must not end the process."""
        self._open += 1
        try:
            with trio.CancelScope() as scope:
                await self._converse(socket_stream, scope)
            if scope.cancelled_caught and not self._is_stopping:
                self._log.debug("A client of the %s is too slow: closing it", self._name)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            self._log.debug("A client of the %s closed its connection: %s", self._name, problem)
        except Exception:
            self._log.exception("Unhandled error in the %s; closing the connection", self._name)
        finally:
            self._open -= 1

    async def _converse(self, socket_stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        """Serve the requests of one connection, one after another; `scope` ends it if the client
        is too slow."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        stream: trio.abc.Stream = socket_stream
        self._limit_time(scope)
        if self._tls is not None:
            stream = trio.SSLStream(socket_stream, self._tls, server_side=True)
        async with stream:
            if self._open > self._limits.connections:
                refusal = self._refuse(503, f"more than {self._limits.connections} connections")
                await self._send(connection, stream, refusal, closes=True)
                return
            while await self._exchange(connection, stream, scope):
                connection.start_next_cycle()

    def _limit_time(self, scope: trio.CancelScope) -> None:
        """Give the client the time of the limits, from now on."""
        idle_s = self._limits.idle_s
        if idle_s is not None:
            scope.deadline = trio.current_time() + idle_s

    async def _exchange(
        self, connection: h11.Connection, stream: trio.abc.Stream, scope: trio.CancelScope
    ) -> bool:
        """Serve one request; returns whether the connection can carry another one."""
        self._limit_time(scope)
        self._idle.add(scope)
        try:
            arrived = await self._receive(connection, stream, scope)
        except h11.RemoteProtocolError as problem:
            if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                refusal = self._refuse(problem.error_status_hint, f"{problem}")
                await self._send(connection, stream, refusal, closes=True)
            return False
        finally:
            self._idle.discard(scope)
        if arrived is None:
            return False
        reply = arrived.refusal
        if reply is None:
            scope.deadline = math.inf
            reply = await self._answer(arrived.request)
            self._limit_time(scope)
        await self._send(
            connection,
            stream,
            reply,
            is_head=arrived.request.method == "HEAD",
            closes=self._is_stopping or connection.their_state is h11.SEND_BODY,
        )
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _receive(
        self, connection: h11.Connection, stream: trio.abc.Stream, scope: trio.CancelScope
    ) -> _Arriving | None:
        """The next request, whole or refused; None if the client closed the connection.

        Raises h11.RemoteProtocolError.
        """
        arriving: _Arriving | None = None
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if arriving is not None and connection.they_are_waiting_for_100_continue:
                    arriving.refusal = self._admit(arriving.request)
                    if arriving.refusal is not None:
                        return arriving
                    go_on = connection.send(h11.InformationalResponse(status_code=100, headers=[]))
                    await stream.send_all(go_on or b"")
                connection.receive_data(bytes(await stream.receive_some(READ_BYTES)))
            elif isinstance(event, h11.Request):
                self._idle.discard(scope)
                arriving = _Arriving(_http_request(event))
            elif isinstance(event, h11.Data) and arriving is not None:
                self._take(event.data, arriving)
                passed_over = arriving.passed_over_bytes
                if passed_over and passed_over > self._limits.passed_over_bytes:
                    return arriving
            elif isinstance(event, h11.EndOfMessage) and arriving is not None:
                return arriving
            else:  # the client closed the connection
                return None

    def _take(self, data: bytes, arriving: _Arriving) -> None:
        """Keep a piece of a body, or pass it over if the request is refused."""
        if arriving.refusal is None and not arriving.body:
            arriving.refusal = self._admit(arriving.request)
        if arriving.refusal is None:
            arriving.body += data
            body_bytes_max = self._limits.body_bytes
            if len(arriving.body) <= body_bytes_max:
                return
            arriving.refusal = self._refuse(413, f"the body is larger than {body_bytes_max} bytes")
            arriving.body.clear()
        arriving.passed_over_bytes += len(data)

    async def _send(
        self,
        connection: h11.Connection,
        stream: trio.abc.Stream,
        reply: HttpReply,
        *,
        is_head: bool = False,
        closes: bool = False,
    ) -> None:
        """Send a response: bytes as they are, or JSON followed by a newline, or no body.

        The response to HEAD has the headers of that to GET, and no body.
        """
        if reply.body is None or isinstance(reply.body, bytes):
            body = reply.body or b""
        else:
            body = json.dumps(reply.body).encode() + b"\n"
        headers = [("date", _date(int(time.time()))), *self._headers, *reply.headers]
        if reply.status != NO_CONTENT:
            headers.append(("content-length", str(len(body))))
        if body:
            headers.append(("content-type", reply.content_type))
        if closes:
            headers.append(("connection", "close"))
        sent = connection.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        if body and not is_head:
            sent += connection.send(h11.Data(data=body)) or b""
        sent += connection.send(h11.EndOfMessage()) or b""
        await stream.send_all(sent)


@dataclass(slots=True)
class _Arriving:
    """A request whose body arrives."""

    head: HttpRequest
    body: bytearray = field(default_factory=bytearray)
    refusal: HttpReply | None = None
    passed_over_bytes: int = 0

    @property
    def request(self) -> HttpRequest:
        """The request with the body that has arrived."""
        return self.head._replace(body=bytes(self.body)) if self.body else self.head


def _http_request(request: h11.Request) -> HttpRequest:
    """Converts a request of h11 to the one that the handlers take.  Header values are Latin-1,
    which decodes any byte."""
    headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
    return HttpRequest(request.method.decode(), request.target.decode(), headers)


@lru_cache(maxsize=1)
def _date(time_s: int) -> str:
    """The value of the header Date (RFC 9110, 6.6.1)."""
    return formatdate(time_s, usegmt=True)
