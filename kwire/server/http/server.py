"""An HTTP/1.1 server on the broker's loop.

It uses h11, which has all of HTTP that the endpoints need and no dependencies.  It shares the loop
with the broker's clients, so everything is limited: connections, the head and the body of a
request, and, if the endpoint wants it, the time until a request has arrived and its reply is sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import h11
import trio

from kwire.server.http.messages import Answer, HttpReply, HttpRequest

READ_BYTES: Final = 65_536
HEAD_BYTES_MAX: Final = 16 * 1024
"""The largest head of a request: its line and its headers."""
SERVER: Final = [("server", "kwire"), ("cache-control", "no-store")]


class HttpLimits(NamedTuple):
    """The limits of one endpoint."""

    body_bytes: int
    """The largest body of a request."""
    connections: int
    """The most open connections; a further one gets the status 503 and is closed."""
    idle_s: float | None
    """The most seconds on trio's clock until a whole request has arrived, and until its reply is
    taken by the client; None for no limit, where that clock can jump."""


class HttpServer:
    """Serves one endpoint; `name` names it in the log."""

    def __init__(self, name: str, answer: Answer, limits: HttpLimits) -> None:
        self._name = name
        self._answer = answer
        self._limits = limits
        self._open = 0
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

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        """Serve one connection; catches every exception: an error must not end the broker."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._open += 1
        try:
            async with stream:
                if self._open > self._limits.connections:
                    await self._refuse(connection, stream)
                    return
                while await self._exchange(connection, stream):
                    connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            self._log.debug("A client of the %s closed its connection: %s", self._name, problem)
        except trio.TooSlowError:
            self._log.debug("A client of the %s is too slow: closing its connection", self._name)
        except Exception:
            self._log.exception("Unhandled error in the %s; closing the connection", self._name)
        finally:
            self._open -= 1

    async def _refuse(self, connection: h11.Connection, stream: trio.SocketStream) -> None:
        reply = HttpReply(503, {"error": f"more than {self._limits.connections} connections"})
        with self._in_time():
            await _send(connection, stream, reply, closes=True)

    async def _exchange(self, connection: h11.Connection, stream: trio.SocketStream) -> bool:
        """Serve one request; returns whether the connection can carry another one."""
        try:
            with self._in_time():
                request = await self._receive(connection, stream)
        except h11.RemoteProtocolError as problem:
            if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                refusal = HttpReply(problem.error_status_hint, {"error": f"{problem}"})
                with self._in_time():
                    await _send(connection, stream, refusal)
            return False
        if request is None:
            return False
        reply = await self._answer(request)
        with self._in_time():
            await _send(connection, stream, reply, is_head=request.method == "HEAD")
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Raise TooSlowError if the block takes longer than the limit."""
        idle_s = self._limits.idle_s
        if idle_s is None:
            yield
        else:
            with trio.fail_after(idle_s):
                yield

    async def _receive(
        self, connection: h11.Connection, stream: trio.SocketStream
    ) -> HttpRequest | None:
        """The next request; None if the client closed the connection.

        Raises h11.RemoteProtocolError.
        """
        request: h11.Request | None = None
        body = bytearray()
        body_bytes_max = self._limits.body_bytes
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    go_on = connection.send(h11.InformationalResponse(status_code=100, headers=[]))
                    await stream.send_all(go_on or b"")
                connection.receive_data(await stream.receive_some(READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > body_bytes_max:
                    raise h11.RemoteProtocolError(
                        f"the body is larger than {body_bytes_max} bytes", error_status_hint=413
                    )
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return _http_request(request, bytes(body))
            else:  # the client closed the connection
                return None


def _http_request(request: h11.Request, body: bytes) -> HttpRequest:
    """Converts a request of h11 to the one that the handlers take.  Header values are Latin-1,
    which decodes any byte."""
    headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
    return HttpRequest(
        method=request.method.decode(),
        target=request.target.decode(),
        host=headers.get("host", ""),
        content_type=headers.get("content-type", ""),
        body=body,
        accept=headers.get("accept", ""),
    )


async def _send(
    connection: h11.Connection,
    stream: trio.SocketStream,
    reply: HttpReply,
    *,
    is_head: bool = False,
    closes: bool = False,
) -> None:
    """Sends a response: bytes as they are, or JSON followed by a newline, or no body.

    The response to HEAD has the headers of that to GET, and no body.
    """
    if reply.body is None or isinstance(reply.body, bytes):
        body = reply.body or b""
    else:
        body = json.dumps(reply.body).encode() + b"\n"
    headers = [*SERVER, ("content-length", str(len(body)))]
    if body:
        headers.append(("content-type", reply.content_type))
    if closes:
        headers.append(("connection", "close"))
    sent = connection.send(h11.Response(status_code=reply.status, headers=headers)) or b""
    if not is_head:
        sent += connection.send(h11.Data(data=body)) or b""
    sent += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(sent)
