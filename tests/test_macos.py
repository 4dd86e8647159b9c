"""What brokers, logs and tests' brokers do where all is hidden that macOS lacks (tests/macos)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOMS = ("server/network", "log", "testing")
OUTCOME = re.compile(r"^(?:(\d+) failed, )?(\d+) passed", re.MULTILINE)


def as_on_macos(*arguments: str) -> str:
    """What Python says to these arguments, where macOS' lacks are its own."""
    environ = {**os.environ, "PYTHONPATH": str(HERE / "macos")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=HERE.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


LOOK = """
import os, select, socket, sys
from pathlib import Path
from kwire.log.reading import residency
from kwire.server.network.readiness import WaitingSockets, ready_sockets
from kwire.testing.hosting import ports
print(sys.platform, hasattr(select, "epoll"), Path("/proc/self").exists(), residency._NOWAIT)
print(type(ready_sockets(None)) is WaitingSockets, ports.free_port() in ports.PORTS)
"""


@pytest.mark.slow
def test_it_is_hidden() -> None:
    assert as_on_macos("-c", LOOK).split() == ["darwin", "False", "False", "0", "True", "True"]


@pytest.mark.long
@pytest.mark.slow
def test_the_rooms_that_ask_for_it() -> None:
    """Those that touch sockets, files and processes; Java's tools are the same everywhere."""
    rooms = [str(HERE / room) for room in ROOMS]
    said = as_on_macos("-m", "pytest", "-q", "-n", "2", "-m", "not long and not java", *rooms)
    found = OUTCOME.search(said)
    assert found is not None, said
    assert found[1] is None, said
    assert int(found[2]) > 900, said
