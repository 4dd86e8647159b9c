"""Plans and rounds with mixed clusters; `make chaos-mixed` runs 100 rounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.conformance.chaos.history import Event, History, Type
from kwire.conformance.chaos.mixed.plan import (
    BROKERS,
    DURATION_S,
    MIXTURES,
    MixedFaultKind,
    draw,
)
from kwire.conformance.chaos.mixed.rounds import longest_pause_s
from kwire.conformance.kraft_cluster import APACHE, KWIRE

EVERY_KIND = list(MixedFaultKind)


def test_seed_determines_the_plan() -> None:
    assert draw(7, EVERY_KIND, ["plain", "bank"]) == draw(7, EVERY_KIND, ["plain", "bank"])
    assert draw(7, EVERY_KIND, ["plain"]) != draw(8, EVERY_KIND, ["plain"])


def test_plans_of_many_seeds_have_all_faults_mixtures_and_quorums() -> None:
    plans = [draw(seed, EVERY_KIND, ["plain"]) for seed in range(300)]
    faults = [fault for plan in plans for fault in plan.faults]
    assert {fault.kind for fault in faults} == set(DURATION_S) == set(EVERY_KIND)
    assert {fault.victim for fault in faults} == {*range(1, BROKERS + 1)}
    assert all(0 <= fault.at_s <= plan.load_s for plan in plans for fault in plan.faults)
    assert {plan.kinds for plan in plans} == set(MIXTURES)
    assert {plan.controllers for plan in plans} == {1, 3}


def test_given_kinds_and_controllers_replace_the_drawn_ones() -> None:
    kinds = (APACHE, APACHE, KWIRE)
    plan = draw(7, [MixedFaultKind.KILL], ["plain"], kinds, 3)
    assert (plan.kinds, plan.controllers) == (kinds, 3)
    assert {fault.kind for fault in plan.faults} == {MixedFaultKind.KILL}
    assert draw(7, [], ["plain"]).faults == ()


def test_longest_pause_counts_acknowledged_records_of_all_producers() -> None:
    events = []
    for number, (ended_s, ended) in enumerate(
        [(1, Type.OK), (2, Type.OK), (4, Type.INFO), (7, Type.OK)]
    ):
        process = f"producer-{number}"
        events.append(Event(0, process, Type.INVOKE, "produce", number, {}))
        events.append(Event(ended_s * 10**9, process, ended, "produce", number, {}))
    assert longest_pause_s(History(events)) == 5.0
    assert longest_pause_s(History([])) == 0.0


def run_round(directory: Path, seed: int, *options: str) -> str:
    """The output of the command for one round."""
    command = [sys.executable, "-m", "kwire.conformance.chaos.mixed", f"--seed={seed}"]
    command += [f"--keep={directory}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["plain", "bank", "chain"])
def test_mixed_round_passes(workload: str, apache_kafka_libs: Path, tmp_path: Path) -> None:
    output = run_round(tmp_path, 1, f"--workload={workload}")
    assert output.endswith("1 rounds, 0 failed\n")
