"""Whole rounds against three brokers on ZooKeeper; `make chaos-cluster` has 300 of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.conformance.chaos.blocks import EXIT_MISSING


def run_round(directory: Path, seed: int, workload: str, *faults: str) -> str:
    """What the command says of one round; skips where it lacks what it takes."""
    command = [sys.executable, "-m", "kwire.conformance.chaos.cluster", f"--seed={seed}"]
    command += [f"--workload={workload}", f"--keep={directory}"]
    done = subprocess.run(
        [*command, *(f"--only-fault={each}" for each in faults)], capture_output=True, text=True
    )
    if done.returncode == EXIT_MISSING:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
@pytest.mark.slow
def test_a_round_of_cuts_and_kills(tmp_path: Path) -> None:
    said = run_round(tmp_path, 13, "plain", "kill", "isolate")
    assert "kill" in said
    assert "isolate" in said
    assert said.endswith("1 rounds, 0 failed\n")


@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
def test_a_round_in_which_sessions_end_before_brokers_are_registered_in_them(
    tmp_path: Path,
) -> None:
    said = run_round(tmp_path, 61000, "plain", "zookeeper stutter")
    assert said.endswith("1 rounds, 0 failed\n")


@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["bank", "chain"])
def test_a_round_of_transactions(tmp_path: Path, workload: str) -> None:
    said = run_round(tmp_path, 2, workload)
    assert said.endswith("1 rounds, 0 failed\n")
