"""Runs whole rounds against three brokers on ZooKeeper; `make chaos-cluster` runs 300."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.conformance.chaos.blocks import EXIT_MISSING


def run_round(directory: Path, seed: int, workload: str, *faults: str) -> str:
    """The output of the command for one round; skips the test if something is missing for it."""
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
def test_cluster_round_with_cuts_and_kills_passes(tmp_path: Path) -> None:
    output = run_round(tmp_path, 13, "plain", "kill", "isolate")
    assert "kill" in output
    assert "isolate" in output
    assert output.endswith("1 rounds, 0 failed\n")


@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
def test_cluster_round_with_a_stuttering_zookeeper_passes(
    tmp_path: Path,
) -> None:
    output = run_round(tmp_path, 61000, "plain", "zookeeper stutter")
    assert output.endswith("1 rounds, 0 failed\n")


@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["bank", "chain"])
def test_cluster_round_with_transactions_passes(tmp_path: Path, workload: str) -> None:
    output = run_round(tmp_path, 2, workload)
    assert output.endswith("1 rounds, 0 failed\n")
