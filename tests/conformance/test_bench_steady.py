"""Runs a steady benchmark for some seconds at a low rate."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 20
RECORDS_PER_S = 200
TIMEOUT_S = 1400
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_steady_run_ends_without_lag_and_writes_its_samples(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kwire.conformance.bench.steady", "--report", str(tmp_path)]
    command += ["--minutes", str(SECONDS / 60), "--rate", str(RECORDS_PER_S)]
    environment = os.environ | {"JDK_JAVA_OPTIONS": QUICK}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "samples.csv", newline="") as file:
        samples = list(csv.DictReader(file))
    first, last = samples[0], samples[-1]
    assert int(last["acknowledged"]) == int(last["processed"]) == SECONDS * RECORDS_PER_S + 1
    assert int(last["lag"]) == 0
    assert max(int(sample["lag"]) for sample in samples) > 0
    assert float(last["at_s"]) >= SECONDS > float(first["at_s"])
    for name in ("broker_mb", "driver_jvm_mb", "driver_python_mb"):
        assert all(float(sample[name]) > 10 for sample in samples), name
    assert (tmp_path / "steady.svg").read_text().lstrip().startswith("<?xml")
    assert "driver's Java, MB" in done.stdout
