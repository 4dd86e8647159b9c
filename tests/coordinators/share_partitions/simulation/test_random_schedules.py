"""Random schedules of share groups on several brokers; laws.py has the invariants."""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from unittest.mock import patch

import pytest
import trio
from trio._core import _run
from trio.testing import MockClock

from tests.coordinators.share_partitions.simulation.events import Step, simulate

pytestmark = pytest.mark.slow

EXPECTED = {
    "after a lock",
    "again",
    "answered too late",
    "begin NONE",
    "between_append_and_commit",
    "lost",
    "pruned",
    "read FENCED_LEADER_EPOCH",
    "read late",
    "said INVALID_RECORD_STATE",
    "said NOT_LEADER_OR_FOLLOWER",
    "while_a_successor_reads",
    "while_a_write_is_under_way",
    "while_it_is_said",
    "write FENCED_LEADER_EPOCH",
    "write FENCED_STATE_EPOCH",
    "write NOT_COORDINATOR",
}

SEEDS = 80
"""Of the short form: four seconds of a processor."""


def run(schedule: list[Step], seed: int) -> Counter[str]:
    clock = MockClock()
    _run._r.seed(seed)
    with patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True):
        return trio.run(simulate, schedule, seed, clock, clock=clock)


def drawn(seed: int) -> list[Step]:
    draw = random.Random(seed)
    length = draw.randint(1, 150)
    return [(draw.randrange(999), draw.randrange(999), draw.randrange(999)) for _ in range(length)]


def test_schedules_of_fixed_seeds_keep_the_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    """And lest nothing happens in them, all that is counted has happened."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            seen += run(drawn(seed), seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error
    assert seen.keys() >= EXPECTED, seen


@pytest.mark.long
def test_many_random_schedules_keep_the_invariants(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make simulate SEEDS=10000`; a seed that fails is named."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    first = rng.getrandbits(40)
    for seed in range(first, first + int(os.environ.get("KWIRE_SIMULATED_SEEDS", "500"))):
        try:
            run(drawn(seed), seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error
