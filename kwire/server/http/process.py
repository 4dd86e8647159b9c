"""A process that serves HTTP: its socket, its certificates, its interpreter, and its end."""

from __future__ import annotations

import gc
import signal
import socket
import ssl
import sys
from dataclasses import dataclass
from typing import Final

import trio

SWITCH_INTERVAL_S: Final = 0.001
"""How long a response waits for a thread that decodes something; Python's default is 5 ms, and a
response waits several times."""
YOUNG_OBJECTS: Final = 20_000
"""New objects before a collection of garbage.  The metadata of 10,000 topics are 60,000 objects
that stay; with Python's default of 700 their decoding takes twice as long."""
STOP_S: Final = 2.0
"""How long responses have to end at the stop; a live tail never ends by itself."""


@dataclass(frozen=True)
class TlsFiles:
    """The files of HTTPS, in PEM."""

    certificate: str
    """The certificate, followed by those of its issuers."""
    key: str
    client_ca: str | None = None
    """The issuers of client certificates; with it, each client needs one."""

    def context(self) -> ssl.SSLContext:
        """What a server needs of them.  Raises OSError, of which SSLError is one."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


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


def stop_event(nursery: trio.Nursery, *, exit_on_eof: bool = False) -> trio.Event:
    """An event that SIGTERM, Ctrl-C or, with `exit_on_eof`, the end of standard input sets."""
    stopped = trio.Event()
    nursery.start_soon(_until_signal, stopped)
    if exit_on_eof:
        nursery.start_soon(_until_eof, stopped)
    return stopped


async def _until_signal(stopped: trio.Event) -> None:
    """Stop at SIGTERM or Ctrl-C."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stopped.set()
            return


async def _until_eof(stopped: trio.Event) -> None:
    """Stop when standard input ends, as it does when the process that holds it ends."""

    def read() -> None:
        while sys.stdin.buffer.read(4096):
            continue

    await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    stopped.set()
