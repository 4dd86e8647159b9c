"""Random events in a cluster that replicates: see laws.py for what must hold."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.replication.simulation.events import simulate
from tests.cluster.replication.simulation.running import (
    Step,
    drawn,
    many_seeds,
    run_seeds,
    simulated,
)

pytestmark = pytest.mark.slow

EXPECTED = {
    "NONE",
    "acknowledged",
    "answered after a change",
    "expired",
    "killed",
    "lapsed",
    "led",
    "left while the ISR changed",
    "let go",
    "lost its power",
    "read late",
    "repeated",
}

SEEDS = 48
"""Of the short form, which has no limit of time: six seconds of a processor."""


def run(schedule: list[Step], seed: int) -> Counter[str]:
    return simulated(simulate, schedule, seed)


numbers = st.integers(0, 999)


@settings(max_examples=10)
@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=60), numbers)
def test_drawn_schedule_keeps_the_laws(schedule: list[Step], seed: int) -> None:
    run(schedule, seed)


@pytest.mark.usefixtures("silence")
def test_schedules_of_fixed_seeds_keep_the_laws() -> None:
    """And lest nothing happens in them, all that is counted has happened."""
    seen = run_seeds(lambda seed: run(drawn(seed), seed), range(SEEDS))
    assert seen.keys() >= EXPECTED, seen


@pytest.mark.long
@pytest.mark.usefixtures("silence")
def test_many_schedules_keep_the_laws(rng: random.Random) -> None:
    """`make simulate SEEDS=10000`; a seed that fails is named."""
    run_seeds(lambda seed: run(drawn(seed), seed), many_seeds(rng))
