"""How a process that was started here is ended."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Final

PATIENCE_S: Final = 120.0
"""What a clean stop may take on a busy machine."""


def end(
    process: subprocess.Popen[bytes],
    signal_number: signal.Signals = signal.SIGTERM,
    patience_s: float = PATIENCE_S,
) -> int:
    """Ask it to end and wait for that; its exit status, -9 where it had to be killed."""
    process.send_signal(signal_number)
    try:
        return process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def lives(pid: int) -> bool:
    """Whether there is such a process, one that has ended and was not waited for too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
