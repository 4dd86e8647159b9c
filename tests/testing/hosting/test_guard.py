"""The guard that kills a process which does not notice the end of the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kwire.testing.hosting.ending import process_exists
from kwire.testing.hosting.guard import Guard

PATIENCE_S = 120.0
STARTER = """
import subprocess, time
from kwire.testing.hosting.guard import Guard

guarded = subprocess.Popen(["sleep", "1000"])
guard = Guard(guarded.pid)
user = subprocess.Popen(["sleep", "1000"], pass_fds=[guard.lifeline])
print(guarded.pid, user.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    """A process that starts a guarded process, and a user of it with the guard's lifeline."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def runs(pid: int) -> bool:
    """Whether the process runs; one that has ended may wait for somebody to ask how."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip() not in ("", "Z")


def test_guarded_process_ends_after_the_starter_and_all_that_have_the_lifeline(
    starter: subprocess.Popen[str],
) -> None:
    assert starter.stdout is not None
    guarded, user = map(int, starter.stdout.readline().split())
    starter.kill()
    starter.wait()
    assert runs(guarded)
    os.kill(user, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while runs(guarded):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_released_guard_kills_nothing() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        Guard(process.pid).release()
        assert process_exists(process.pid)
        assert process.poll() is None
        process.kill()
