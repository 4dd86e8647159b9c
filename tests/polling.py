"""Waiting for what cannot be awaited: other programs' processes, files and answers."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""For what takes a fraction of a second; a busy machine may let it wait for a while."""
POLL_S = 0.01


def until(condition: Callable[[], bool], otherwise: str = "it is not so") -> None:
    """Ask again and again; `otherwise` says what is wrong where it does not come about."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{otherwise}, after {PATIENCE_S} s"
        time.sleep(POLL_S)
