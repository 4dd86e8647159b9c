"""Random schedules of share groups on several brokers; laws.py has the invariants."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.cluster.replication.simulation.running import (
    drawn,
    many_seeds,
    repeatable,
    run_seeds,
)
from tests.coordinators.share_partitions.simulation.events import Step, simulate

pytestmark = pytest.mark.slow

EXPECTED = {
    "after a lock",
    "again",
    "archived with a dead letter",
    "dead letters lost",
    "dead letters read late",
    "killed with dead letters",
    "answered too late",
    "begin NONE",
    "between_append_and_commit",
    "disconnected at rest",
    "lost",
    "overtook a write",
    "pruned",
    "read FENCED_LEADER_EPOCH",
    "read late",
    "acknowledged INVALID_RECORD_STATE",
    "acknowledged NOT_LEADER_OR_FOLLOWER",
    "waited for locks",
    "while_a_successor_reads",
    "while_a_write_is_under_way",
    "while_an_acknowledgement_is_under_way",
    "write FENCED_LEADER_EPOCH",
    "write FENCED_STATE_EPOCH",
    "write NOT_COORDINATOR",
    "writes failed",
}

SEEDS = 80
"""Of the short form: four seconds of a processor."""


def run(schedule: list[Step], seed: int) -> Counter[str]:
    seen: Counter[str] = repeatable(simulate, schedule, seed=seed)
    return seen


@pytest.mark.usefixtures("silence")
def test_schedules_of_fixed_seeds_keep_the_invariants() -> None:
    """And lest nothing happens in them, all that is counted has happened."""
    seen = run_seeds(lambda seed: run(drawn(seed), seed), range(SEEDS))
    assert seen.keys() >= EXPECTED, seen


@pytest.mark.long
@pytest.mark.usefixtures("silence")
def test_many_random_schedules_keep_the_invariants(rng: random.Random) -> None:
    """`make simulate SEEDS=10000`; a seed that fails is named."""
    run_seeds(lambda seed: run(drawn(seed), seed), many_seeds(rng))
