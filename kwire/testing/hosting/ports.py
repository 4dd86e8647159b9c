"""Free ports that are given out once: no two callers get the same one, in any process."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections import deque
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below the kernel's range for outgoing connections (from 32768 on), so that no client connection
takes a port between the check here and the broker's bind."""

HELD_MAX: Final = 256
"""How many ports a process reserves at a time, with one file descriptor each.  More than a test or
a cluster needs, and far below 1,024, a common limit of open files."""

_ports = random.SystemRandom()
_held: deque[int] = deque()
"""File descriptors of the reserved ports, oldest first; the end of the process closes them."""


class NoFreePort(RuntimeError):
    """None of the ports that were tried is free."""


def free_port() -> int:
    """A free TCP port on all interfaces, reserved for the caller.

    On Linux the port stays bound, without listening, until this process reserves 256 more.  Another
    search for a port finds it taken, but a server that sets SO_REUSEADDR, as nearly all do, can
    still listen on it.  Raises NoFreePort.
    """
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of `count` consecutive free ports, all reserved.  Raises NoFreePort."""
    for _ in range(200):
        first = _ports.choice(PORTS)
        probes = _bound(range(first, first + count))
        if probes is not None:
            for probe in probes:
                _reserve(probe)
            return first
    wanted = "no free port" if count == 1 else f"no {count} free ports in a row"
    raise NoFreePort(f"{wanted} between {PORTS.start} and {PORTS.stop}")


def _bound(ports: range) -> list[socket.socket] | None:
    """A socket bound to each of these ports, or None if one of them is taken."""
    probes: list[socket.socket] = []
    for port in ports:
        probe = socket.socket()
        probes.append(probe)
        try:
            probe.bind(("", port))
        except OSError:
            for bound in probes:
                bound.close()
            return None
    return probes


def _reserve(probe: socket.socket) -> None:
    """Keep the port bound.  Only Linux lets a server listen on a port that is reserved so."""
    if sys.platform != "linux":
        probe.close()
        return
    # Set after the bind: two sockets that both set it before can bind to the same port, and the
    # bind of a probe has to fail for a port that another process reserved.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _held.append(probe.detach())
    if len(_held) > HELD_MAX:
        os.close(_held.popleft())
