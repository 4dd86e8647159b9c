"""Brokers, logs and tests' brokers work where tests/macos hides what macOS lacks."""

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
    """The output of Python, run with what macOS lacks hidden."""
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
print(type(ready_sockets(None, None)) is WaitingSockets, ports.free_port() in ports.PORTS)
"""


@pytest.mark.slow
def test_features_that_macos_lacks_are_hidden() -> None:
    assert as_on_macos("-c", LOOK).split() == ["darwin", "False", "False", "0", "True", "True"]


@pytest.mark.long
@pytest.mark.slow
def test_broker_and_log_tests_pass_without_features_that_macos_lacks() -> None:
    """Tests of sockets, files and processes; Java's tools are the same on every system."""
    rooms = [str(HERE / room) for room in ROOMS]
    output = as_on_macos("-m", "pytest", "-q", "-n", "2", "-m", "not long and not java", *rooms)
    found = OUTCOME.search(output)
    assert found is not None, output
    assert found[1] is None, output
    assert int(found[2]) > 900, output
