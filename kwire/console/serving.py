"""The console's HTTP server: hypercorn on trio, on a socket that is bound here."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.types import ASGIApp, Receive, Scope, Send

from kwire.client.cluster import Cluster
from kwire.console.app import application
from kwire.console.pool import ClusterPool
from kwire.console.security import TOKEN_PARAMETER, access_rules
from kwire.console.site import Site

log = logging.getLogger("kwire.console")

HOST_DEFAULT: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8080
HEADERS_SIZE_BYTES_MAX: Final = 32 * 1024
KEEP_ALIVE_S: Final = 60.0
SWITCH_INTERVAL_S: Final = 0.001
"""How long a page waits for a thread that decodes a response; Python's default is 5 ms, and a page
waits several times."""
YOUNG_OBJECTS: Final = 20_000
"""New objects before a collection of garbage.  The metadata of 10,000 topics are 60,000 objects
that stay; with Python's default of 700 their decoding takes twice as long."""
FIRST_TEMPLATES: Final = ("base.html", "parts.html", "topics.html")
"""The templates of the page that the printed address leads to."""
STOP_S: Final = 2.0
"""How long responses have to end when the console stops; a live tail never ends by itself."""


@dataclass(frozen=True)
class ConsoleOptions:
    """What `kwire console` was given."""

    bootstrap: str
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    """0 chooses a free port."""
    allowed_hosts: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    command_options: str = ""
    """What other `kwire` commands need to reach the same cluster."""
    exit_on_eof: bool = False
    parts: dict[str, object] = field(default_factory=dict)
    """What views share, by name."""


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


def run_console(
    options: ConsoleOptions, connect: Callable[[], Cluster], announce: Callable[[str], None]
) -> None:
    """Serve the console until SIGTERM or Ctrl-C.  Raises OSError if the port cannot be bound.

    `announce` gets the URL to open when the console is ready, with the token if there is one.
    """
    listener = bound_socket(options.host, options.port)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
    trio.run(_serve, options, connect, listener, announce)


async def _serve(
    options: ConsoleOptions,
    connect: Callable[[], Cluster],
    listener: socket.socket,
    announce: Callable[[str], None],
) -> None:
    """Serve on a bound socket until a signal arrives, or the end of standard input."""
    port = listener.getsockname()[1]
    rules = access_rules(options.host, port, options.allowed_hosts)
    pool = ClusterPool(connect)
    site = Site(
        pool,
        options.bootstrap,
        metrics=options.metrics,
        controls=options.controls,
        command_options=options.command_options,
    )
    site.parts.update(options.parts)
    app = application(site, rules)
    stopped = trio.Event()

    async def on_signal() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                stopped.set()
                return

    config = _configured(listener)
    async with trio.open_nursery() as nursery:
        pool.nursery = nursery
        nursery.start_soon(on_signal)
        if options.exit_on_eof:
            nursery.start_soon(_until_eof, stopped)
        for work in site.background:
            nursery.start_soon(work)
        nursery.start_soon(compile_templates, site)
        announce(_url(options.host, port, rules.token))
        await serve(_until_closed(app), config, shutdown_trigger=stopped.wait)  # type: ignore[arg-type]  # Starlette's ASGI types and hypercorn's are two statements of one protocol
        nursery.cancel_scope.cancel()
    pool.close()


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


async def compile_templates(site: Site) -> None:
    """Compile the templates, that of the first page first, before pages need them."""
    names = sorted(site.templates.list_templates(), key=lambda name: name not in FIRST_TEMPLATES)
    for name in names:
        if name not in FIRST_TEMPLATES:
            await trio.to_thread.run_sync(site.pool.pages.wait, abandon_on_cancel=True)
        site.templates.get_template(name)
        await trio.lowlevel.checkpoint()


def _configured(listener: socket.socket) -> Config:
    """The configuration of hypercorn."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # hypercorn closes it
    config.h11_max_incomplete_size = HEADERS_SIZE_BYTES_MAX
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.graceful_timeout = STOP_S
    config.shutdown_timeout = STOP_S
    config.include_server_header = False
    config.accesslog = None
    errors = logging.getLogger("kwire.console.http")
    errors.setLevel(logging.WARNING)  # it says where it listens, which `announce` has said
    config.errorlog = errors
    return config


async def _until_eof(stopped: trio.Event) -> None:
    """Stop when standard input ends, as it does when the process that holds it ends."""

    def read() -> None:
        while sys.stdin.buffer.read(4096):
            continue

    await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    stopped.set()


def _url(host: str, port: int, token: str | None) -> str:
    """The URL to open.  An address of all interfaces becomes this machine's name."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?{TOKEN_PARAMETER}={token}" if token else "")
