"""Ends a child process, and checks whether a process exists."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Final

PATIENCE_S: Final = 120.0
"""How long a clean shutdown may take on a busy machine."""


def end(
    process: subprocess.Popen[bytes],
    signal_number: signal.Signals = signal.SIGTERM,
    patience_s: float = PATIENCE_S,
) -> int:
    """Signal the process and wait for its end; returns its exit status, -9 if it was killed after
    `patience_s`."""
    process.send_signal(signal_number)
    try:
        return process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def process_exists(pid: int) -> bool:
    """Whether a process has that id; a zombie has it until its parent waits for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
