"""An ASGI application over HTTP or HTTPS: hypercorn on trio, on a socket that is bound here."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import ssl
import sys
from dataclasses import dataclass
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.types import ASGIApp, Receive, Scope, Send

HEADERS_SIZE_BYTES_MAX: Final = 32 * 1024
KEEP_ALIVE_S: Final = 60.0
SWITCH_INTERVAL_S: Final = 0.001
"""How long a response waits for a thread that decodes something; Python's default is 5 ms, and a
response waits several times."""
YOUNG_OBJECTS: Final = 20_000
"""New objects before a collection of garbage.  The metadata of 10,000 topics are 60,000 objects
that stay; with Python's default of 700 their decoding takes twice as long."""
STOP_S: Final = 2.0
"""How long responses have to end at the stop; a live tail never ends by itself."""
HTTP_1_ONLY: Final = ["http/1.1"]


@dataclass(frozen=True)
class TlsFiles:
    """The files of HTTPS, in PEM."""

    certificate: str
    """The certificate, followed by those of its issuers."""
    key: str
    client_ca: str | None = None
    """The issuers of client certificates; with it, each client needs one."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on an address.  Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def reachable_host(host: str) -> str:
    """The host under which others reach a socket: an address of all interfaces becomes this
    machine's name."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def tune_interpreter() -> None:
    """Set the interpreter for a process that answers while threads work."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)


async def serve_until_stopped(
    app: ASGIApp,
    listener: socket.socket,
    errors: logging.Logger,
    *,
    exit_on_eof: bool = False,
    tls: TlsFiles | None = None,
) -> None:
    """Serve on a bound socket until SIGTERM, Ctrl-C or, with `exit_on_eof`, the end of standard
    input.

    `errors` gets hypercorn's warnings.  Raises OSError if a file of `tls` cannot be read.
    """
    stopped = trio.Event()

    async def on_signal() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                stopped.set()
                return

    config = _configured(listener, errors, tls)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(on_signal)
        if exit_on_eof:
            nursery.start_soon(_until_eof, stopped)
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


def _configured(listener: socket.socket, errors: logging.Logger, tls: TlsFiles | None) -> Config:
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
    if tls is not None:
        config.certfile, config.keyfile = tls.certificate, tls.key
        config.alpn_protocols = HTTP_1_ONLY
        if tls.client_ca is not None:
            config.ca_certs = tls.client_ca
            config.verify_mode = ssl.CERT_REQUIRED
    return config


async def _until_eof(stopped: trio.Event) -> None:
    """Stop when standard input ends, as it does when the process that holds it ends."""

    def read() -> None:
        while sys.stdin.buffer.read(4096):
            continue

    await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    stopped.set()
