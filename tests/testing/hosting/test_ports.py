"""A free port is given to one asker, and whoever serves on it can have it."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.testing import SharedClusterProcess
from kwire.testing.hosting import ports

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no port is held")

ASK = """
import random, sys
from kwire.testing.hosting import ports
ports._ports = random.Random(7)
print(ports.free_port(), flush=True)
sys.stdin.read()
"""


def test_free_port_can_be_bound() -> None:
    for host in ("127.0.0.1", ""):
        with (
            socket.create_server((host, ports.free_port())) as server,
            socket.create_connection(server.getsockname()[:2]),
        ):
            pass


def test_port_can_be_bound_again_after_its_server() -> None:
    port = ports.free_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


@ON_LINUX
@pytest.mark.slow
def test_processes_with_the_same_draws_get_different_ports() -> None:
    """What two runs at once did by chance: neither listens yet when the other one looks."""
    asked = [
        subprocess.Popen(
            [sys.executable, "-c", ASK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    given = [asker.stdout.readline() for asker in asked if asker.stdout]
    for asker in asked:
        asker.communicate()
    assert len(set(given)) == len(asked), given


class Neighbours(random.Random):
    """Draws each second number next to the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._next: int | None = None

    def choice(self, seq: Any) -> Any:  # noqa: ANN401 - as of Random
        if self._next is None:
            drawn = super().choice(seq)
            self._next = drawn + 1
        else:
            drawn, self._next = self._next, None
        return drawn


@ON_LINUX
def test_free_ports_returns_disjoint_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second port of a row must be held as the first is: "PLAINTEXT and BROKERS both have"."""
    monkeypatch.setattr(ports, "_ports", Neighbours())
    cluster = SharedClusterProcess(tmp_path, 3, cuttable=True, controlled=True)
    assert cluster.first_control_port is not None
    rows = [range(first, first + 3) for first in (cluster.first_port, cluster.first_control_port)]
    listening = [
        int(port)
        for name, value in cluster.settings.items()
        if name.endswith(":listeners")
        for port in re.findall(r":(\d+)", value)
    ]
    inner = [port for port in listening if port not in rows[0]]
    assert len(inner) == 3
    used = [*rows[0], *rows[1], *inner]
    assert len(set(used)) == len(used), sorted(used)


@ON_LINUX
def test_free_ports_reserves_each_port() -> None:
    first = ports.free_ports(3)
    for port in range(first, first + 3):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("", port))
        with socket.create_server(("127.0.0.1", port)):
            """Who asked for it can have it."""


@ON_LINUX
def test_oldest_reservation_ends_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "HELD_MAX", 2)
    free_port: Callable[[], int] = ports.free_port
    while len(ports._held) > 2:  # of other tests
        os.close(ports._held.popleft())
    first = free_port()
    free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("", first))
    free_port()
    assert len(ports._held) == 2
    with socket.socket() as other:
        other.bind(("", first))
