"""Free ports, each for one asker: no two of them, also in other processes, are given the same."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections import deque
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below the range the kernel gives to outgoing connections (from 32768 on): a port that was found
free here is not taken by somebody's client between the look and the broker's bind."""

HELD_MAX: Final = 256
"""How many ports a process holds at a time, a file descriptor each: more than a test or a cluster
asks for, and far from the 1,024 that a process may often have open."""

_ports = random.SystemRandom()
_held: deque[int] = deque()
"""Their file descriptors, the oldest first; the process' end closes them."""


class NoFreePort(RuntimeError):
    """Of those that were tried none is free."""


def free_port() -> int:
    """A TCP port nobody listens on now, on any interface, and nobody else is given here.

    On Linux it stays bound, without listening, until 256 more were asked for: whoever looks for a
    port finds it taken, and a server that sets SO_REUSEADDR, as nearly all do, can still have it.
    Raises NoFreePort.
    """
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of `count` ports in a row, each as `free_port` gives it.  Raises NoFreePort."""
    for _ in range(200):
        first = _ports.choice(PORTS)
        probes = _bound(range(first, first + count))
        if probes is not None:
            for probe in probes:
                _hold(probe)
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
            for each in probes:
                each.close()
            return None
    return probes


def _hold(probe: socket.socket) -> None:
    """Keep a port from other askers. Elsewhere than on Linux nobody could listen on it then."""
    if sys.platform != "linux":
        probe.close()
        return
    # Said only now: a bind fails where another socket is bound, unless both have said it before.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _held.append(probe.detach())
    if len(_held) > HELD_MAX:
        os.close(_held.popleft())
