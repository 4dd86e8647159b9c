"""Brokers for what the pages show: kwire and, where Java is installed, Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.client.conftest import cluster

__all__ = ["awaited", "cluster"]

T = TypeVar("T")


def awaited(ask: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """What `ask` returns once it fits: Apache Kafka's brokers learn of changes a little later."""
    deadline = time.monotonic() + 120
    while not holds(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found
