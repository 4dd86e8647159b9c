"""Random events in a cluster that shares one process' metadata: see laws.py for what must hold."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kwire.cluster.stores import change_log
from kwire.cluster.stores.shared import server
from tests.cluster.replication.simulation.running import (
    drawn,
    many_seeds,
    run_seeds,
    simulated,
)
from tests.cluster.shared_simulation.events import simulate

EXPECTED: set[str] = {
    "conflict",
    "decided again",
    "deposed",
    "disk failed",
    "elected",
    "fenced",
    "holder killed",
    "holder orphaned",
    "holder stopped",
    "killed",
    "killed in a snapshot",
    "killed in a write",
    "left",
    "lost its power",
    "lost its session",
    "made",
    "made for the controller",
    "producer ids",
    "refused to register",
    "restarted quickly",
    "settled",
    "usurped",
    "wrote in an earlier epoch",
}

SEEDS = 60
"""Of the short form."""
LENGTH_MAX = 80
"""Of a schedule."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, silence: None) -> None:
    """So that few changes take several lines, and the log is often written anew."""
    monkeypatch.setattr(server, "CHANGES_A_LINE", 2)
    monkeypatch.setattr(change_log, "LOG_BYTES_MIN", 1500)


def run(seed: int) -> Counter[str]:
    return simulated(simulate, drawn(seed, LENGTH_MAX), seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_schedule_of_a_fixed_seed_keeps_the_laws(seed: int) -> None:
    run(seed)


@pytest.mark.slow
def test_schedules_of_fixed_seeds_reach_all_counted_situations() -> None:
    seen = run_seeds(run, range(SEEDS // 3))
    assert seen.keys() >= EXPECTED, seen


@pytest.mark.long
def test_many_schedules_keep_the_laws(rng: random.Random) -> None:
    """`make simulate SEEDS=10000`; a seed that fails is named."""
    run_seeds(run, many_seeds(rng))
