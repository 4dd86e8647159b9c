"""Run commands of the documentation as a user types them in a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kwire.testing.hosting.ports import free_ports
from kwire.testing.hosting.process import answers

KWIRE_ON_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
TIMEOUT_S = 600


def typed(commands: str, folder: Path, environment: Mapping[str, str], *, replies: str = "") -> str:
    """Run a block of commands in one bash at a terminal; returns what they print.

    The first command that fails ends the block and the test.  `replies` is what the user types when
    a command asks.
    """
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    reader = threading.Thread(target=_read_terminal, args=(ours, shown))
    try:
        os.write(ours, replies.encode())
        reader.start()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            cwd=folder,
            env={**os.environ, "PATH": KWIRE_ON_PATH, **environment},
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    errors = b"".join(shown).decode(errors="replace")
    assert done.returncode == 0, commands + done.stdout + errors
    assert "Traceback" not in errors, errors
    return done.stdout


def _read_terminal(ours: int, shown: list[bytes]) -> None:
    """Read what is shown at the terminal, until nobody has it open any more."""
    with contextlib.suppress(OSError):  # EIO is its end on Linux
        while data := os.read(ours, 1 << 16):
            shown.append(data)


@contextlib.contextmanager
def serving(command: str, folder: Path, *, ports: int = 1) -> Iterator[str]:
    """Run a `kwire serve` line in `folder`, on free ports; yields the bootstrap address.

    `ports` is how many brokers the line starts.
    """
    port = free_ports(ports)
    line = f"exec {command.partition(' #')[0].strip()} --port {port} --exit-on-eof"
    log = folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", line],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PATH": KWIRE_ON_PATH},
        )
    with process:
        try:
            while not answers("localhost", port):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            yield f"localhost:{port}"
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()
