"""An HTTP/1.1 server on the loopback address, for kwire.testing.hooks.control.api.

It uses h11, which has all of HTTP that the control needs and no dependencies.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import h11
import trio

from kwire.testing.hooks.control.api import HttpReply, HttpRequest, answer

if TYPE_CHECKING:
    from kwire.testing.hooks.control.service import Control

log = logging.getLogger("kwire.control")

HOST: Final = "127.0.0.1"
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
READ_BYTES: Final = 65_536
SERVER: Final = [("server", "kwire"), ("cache-control", "no-store")]


async def serve(
    control: Control, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled.  Raises OSError with a message if the port is not available."""
    async with trio.open_nursery() as nursery:
        try:
            listeners = await trio.open_tcp_listeners(control.port, host=HOST)
        except OSError as problem:
            raise OSError(
                problem.errno, f"cannot listen on {HOST} port {control.port}: {problem.strerror}"
            ) from None
        control.port = listeners[0].socket.getsockname()[1]
        log.info("The control serves at http://%s:%d", HOST, control.port)
        await nursery.start(trio.serve_listeners, partial(_serve_client, control), listeners)
        task_status.started()


async def _serve_client(control: Control, stream: trio.SocketStream) -> None:
    """Serve one connection; catches every exception, because an error must not end the broker."""
    connection = h11.Connection(h11.SERVER)
    try:
        async with stream:
            while await _exchange(control, connection, stream):
                connection.start_next_cycle()
    except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
        log.debug("A client of the control closed its connection: %s", problem)
    except Exception:
        log.exception("Unhandled error in the control; closing the connection")


async def _exchange(
    control: Control, connection: h11.Connection, stream: trio.SocketStream
) -> bool:
    """Serve one request; returns whether the connection can carry another one."""
    try:
        request = await _receive(connection, stream)
    except h11.RemoteProtocolError as problem:
        if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await _send(
                connection, stream, HttpReply(problem.error_status_hint, {"error": f"{problem}"})
            )
        return False
    if request is None:
        return False
    await _send(connection, stream, await answer(control, request))
    return connection.our_state is h11.DONE and connection.their_state is h11.DONE


async def _receive(connection: h11.Connection, stream: trio.SocketStream) -> HttpRequest | None:
    """The next request; None if the client closed the connection.

    Raises h11.RemoteProtocolError.
    """
    request: h11.Request | None = None
    body = bytearray()
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
            if len(body) > BODY_BYTES_MAX:
                raise h11.RemoteProtocolError(
                    f"the body is larger than {BODY_BYTES_MAX} bytes", error_status_hint=413
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
    )


async def _send(connection: h11.Connection, stream: trio.SocketStream, reply: HttpReply) -> None:
    """Sends a response with its body as JSON, followed by a newline; no body if it is None."""
    body = b"" if reply.body is None else json.dumps(reply.body).encode() + b"\n"
    headers = [*SERVER, ("content-length", str(len(body)))]
    if body:
        headers.append(("content-type", "application/json"))
    events = [h11.Response(status_code=reply.status, headers=headers)]
    sent = b"".join(
        connection.send(event) or b""
        for event in (*events, h11.Data(data=body), h11.EndOfMessage())
    )
    await stream.send_all(sent)
