"""All hostile cases for two brokers."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.conformance.hostile.batch_cases import batch_cases
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.frame_cases import delivery_cases, mutation_cases
from kwire.conformance.wire.broker import Served

SEED = "1"


def hostile_cases(served: Served, seed: str = SEED) -> Iterator[HostileCase]:
    """Yield the cases for the versions that both brokers serve; the seed determines random
    choices."""
    yield from batch_cases()
    yield from delivery_cases(served)
    yield from mutation_cases(served, seed)
