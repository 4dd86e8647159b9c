"""Run commands of the documentation as a user types them in a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kwire.testing.hosting.ports import free_ports

KWIRE_ON_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
TIMEOUT_S = 600
READY = re.compile(r"^.* serve: (?:broker \d+ is ready\.|\d+ brokers are ready: )", re.MULTILINE)


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
def serving(
    command: str, folder: Path, *, ports: int = 1, address: str | None = None
) -> Iterator[str]:
    """Run a `kwire serve` line in `folder`; yields the bootstrap address.

    The line gets free ports, of which `ports` is how many brokers it starts; or its settings name
    `address`.  The log is `serve.log`, or that name with a number if there is one already.
    """
    line = command.partition(" #")[0].strip()
    if address is None:
        address = f"localhost:{free_ports(ports)}"
        line += f" --port {address.rpartition(':')[2]}"
    log = folder / "serve.log"
    while log.exists():
        log = log.with_stem(f"{log.stem}-2")
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", _exec_of(f"{line} --exit-on-eof")],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PATH": KWIRE_ON_PATH},
        )
    with process:
        try:
            # A broker with TLS does not answer a plain request, but all say when they are ready.
            while not READY.search(log.read_text()):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            yield address
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()


def _exec_of(line: str) -> str:
    """The line for a shell that the command replaces, also behind variables for it alone."""
    variables, kwire, rest = line.partition("kwire ")
    return f"{variables}exec {kwire}{rest}"
