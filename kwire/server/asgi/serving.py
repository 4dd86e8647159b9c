"""An ASGI application over HTTP: hypercorn on trio."""

from __future__ import annotations

import logging
import socket
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.types import ASGIApp, Receive, Scope, Send

from kwire.server.http.process import STOP_S, stop_event

HEADERS_SIZE_BYTES_MAX: Final = 32 * 1024
KEEP_ALIVE_S: Final = 60.0


async def serve_until_stopped(
    app: ASGIApp,
    listener: socket.socket,
    errors: logging.Logger,
    *,
    exit_on_eof: bool = False,
) -> None:
    """Serve on a bound socket until SIGTERM, Ctrl-C or, with `exit_on_eof`, the end of standard
    input.

    `errors` gets hypercorn's warnings.
    """
    config = _configured(listener, errors)
    async with trio.open_nursery() as nursery:
        stopped = stop_event(nursery, exit_on_eof=exit_on_eof)
        await serve(_until_closed(app), config, shutdown_trigger=stopped.wait)  # type: ignore[arg-type]  # Starlette's ASGI types and hypercorn's are two statements of one protocol
        nursery.cancel_scope.cancel()


def _until_closed(app: ASGIApp) -> ASGIApp:
    """An application that ends with its connection, also if hypercorn closes it early.

    When a client stops sending before it has its response, hypercorn ends the stream beside the
    application, and what is sent meanwhile is refused as busy.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except trio.BusyResourceError:
            while (await receive())["type"] != "http.disconnect":
                continue

    return answer


def _configured(listener: socket.socket, errors: logging.Logger) -> Config:
    """The configuration of hypercorn."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # hypercorn closes it
    config.h11_max_incomplete_size = HEADERS_SIZE_BYTES_MAX
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.graceful_timeout = STOP_S
    config.shutdown_timeout = STOP_S
    config.include_server_header = False
    config.accesslog = None
    errors.setLevel(logging.WARNING)  # it says where it listens, which the caller says itself
    config.errorlog = errors
    return config
