"""Waits for effects that a broker shows after its response."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_S = 120.0

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T) -> T:
    """Wait for the expected result, since Apache Kafka ends transactions after its response."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := look()) != expected:
        assert time.monotonic() < deadline, f"{found!r}, not {expected!r}"
    return found
