"""The console's HTTP server: hypercorn on trio, on a socket that is bound here."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from kwire.client.cluster import Cluster
from kwire.console.app import application
from kwire.console.pool import ClusterPool
from kwire.console.security import TOKEN_PARAMETER, access_rules
from kwire.console.site import Site
from kwire.server.asgi.serving import serve_until_stopped
from kwire.server.http.process import bound_socket, reachable_host, tune_interpreter

HOST_DEFAULT: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8080
FIRST_TEMPLATES: Final = ("base.html", "parts.html", "topics.html")
"""The templates of the page that the printed address leads to."""
HTTP_LOG: Final = logging.getLogger("kwire.console.http")


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


def run_console(
    options: ConsoleOptions, connect: Callable[[], Cluster], announce: Callable[[str], None]
) -> None:
    """Serve the console until SIGTERM or Ctrl-C.  Raises OSError if the port cannot be bound.

    `announce` gets the URL to open when the console is ready, with the token if there is one.
    """
    listener = bound_socket(options.host, options.port)
    tune_interpreter()
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
    async with trio.open_nursery() as nursery:
        pool.nursery = nursery
        for work in site.background:
            nursery.start_soon(work)
        nursery.start_soon(compile_templates, site)
        announce(_url(options.host, port, rules.token))
        await serve_until_stopped(app, listener, HTTP_LOG, exit_on_eof=options.exit_on_eof)
        nursery.cancel_scope.cancel()
    pool.close()


async def compile_templates(site: Site) -> None:
    """Compile the templates, that of the first page first, before pages need them."""
    names = sorted(site.templates.list_templates(), key=lambda name: name not in FIRST_TEMPLATES)
    for name in names:
        if name not in FIRST_TEMPLATES:
            await trio.to_thread.run_sync(site.pool.pages.wait, abandon_on_cancel=True)
        site.templates.get_template(name)
        await trio.lowlevel.checkpoint()


def _url(host: str, port: int, token: str | None) -> str:
    """The URL to open.  An address of all interfaces becomes this machine's name."""
    shown = reachable_host(host)
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?{TOKEN_PARAMETER}={token}" if token else "")
