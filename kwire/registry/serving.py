"""The registry's HTTP server: its start, and its end."""

from __future__ import annotations

import gc
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse
from kwire.registry.primary import GROUP_DEFAULT, InstanceIdentity
from kwire.registry.rest.access import read_users
from kwire.registry.rest.app import TARGET_LENGTH_MAX, RegistryApp, refused
from kwire.registry.rest.forwarding import Forwarder
from kwire.registry.schemas.levels import messages
from kwire.registry.schemas.parsing import parse
from kwire.registry.service import RegistryService, RegistrySettings
from kwire.registry.topic import TOPIC_DEFAULT
from kwire.server.http.process import (
    STOP_S,
    TlsFiles,
    bound_socket,
    reachable_host,
    stop_event,
    tune_interpreter,
)
from kwire.server.http.server import HttpLimits, HttpServer

LIMITS: Final = HttpLimits(
    # A record has 1 MB at most by Kafka's default, and a schema in JSON may be four times as long.
    body_bytes=4 * 1024 * 1024,
    connections=10_000,
    idle_s=60,
    passed_over_bytes=64 * 1024 * 1024,
    head_bytes=2 * TARGET_LENGTH_MAX,
)


@dataclass(frozen=True)
class RegistryOptions:
    """What `kwire registry` was given."""

    host: str
    port: int
    """0 chooses a free port."""
    advertised_host: str | None = None
    topic: str = TOPIC_DEFAULT
    group_id: str = GROUP_DEFAULT
    is_eligible: bool = True
    """Whether the instance may become the primary."""
    users: Path | None = None
    tls: TlsFiles | None = None
    authorities: Path | None = None
    """By which the certificates of other instances are checked."""
    exit_on_eof: bool = False


def run_registry(
    options: RegistryOptions, connect: Callable[[], Cluster], announce: Callable[[str], None]
) -> None:
    """Serve the registry until SIGTERM or Ctrl-C.

    `announce` gets the URL when all schemas are loaded.  Raises OSError if the port cannot be
    bound or a file cannot be read, Misuse if a file is wrong, ClientError if the topic cannot be
    loaded.
    """
    tls = None
    try:
        users = None if options.users is None else read_users(options.users)
        if options.tls is not None:
            tls = options.tls.context()
    except (ValueError, ssl.SSLError) as problem:
        raise Misuse(str(problem)) from None
    listener = bound_socket(options.host, options.port)
    try:
        identity = InstanceIdentity(
            options.advertised_host or reachable_host(options.host),
            listener.getsockname()[1],
            "http" if options.tls is None else "https",
            options.is_eligible,
        )
        settings = RegistrySettings(options.topic, options.group_id)
        service = RegistryService(connect, identity, parse, messages, settings)
        tune_interpreter()
        service.start()
        gc.freeze()  # most of it stays, so that no collection need look through it
    except BaseException:
        listener.close()
        raise
    app = RegistryApp(service, users=users, forwarder=Forwarder(options.authorities))
    server = HttpServer(
        "registry", app.answer, LIMITS, admit=app.admit, refuse=refused, tls=tls, headers=()
    )
    announce(identity.url)
    try:
        trio.run(partial(_serve, server, listener, exit_on_eof=options.exit_on_eof))
    finally:
        service.stop()


async def _serve(server: HttpServer, listener: socket.socket, *, exit_on_eof: bool) -> None:
    """Serve on a bound socket until the process is told to stop."""
    async with trio.open_nursery() as nursery:
        stopped = stop_event(nursery, exit_on_eof=exit_on_eof)
        sockets = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        await server.serve_until(sockets, stopped, STOP_S)
        nursery.cancel_scope.cancel()
