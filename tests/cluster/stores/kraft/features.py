"""The features that a node of Apache Kafka 4.4.0 registers with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LEVELS = {
    "metadata.version": (7, 33),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
}


def features_of(make: Callable[[str, int, int], T]) -> list[T]:
    """The features as entries of a request."""
    return [make(name, low, high) for name, (low, high) in LEVELS.items()]
