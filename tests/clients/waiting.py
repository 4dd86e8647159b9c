"""Waiting for what a broker does after its reply."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_S = 120.0

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T) -> T:
    """Look until there is what is expected: Apache Kafka ends transactions after its reply."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := look()) != expected:
        assert time.monotonic() < deadline, f"{found!r}, not {expected!r}"
    return found
