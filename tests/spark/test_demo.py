"""The demo on a sample of the flights: public clients, a consumer group and Spark on one broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 1500


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_demo_of_sampled_flights_has_the_figures_of_the_file(
    bootstrap: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "kwire.pipeline.demo", "--every", "100"]
    command += ["--bootstrap", bootstrap, "--directory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3,368 flights produced" in done.stdout
    assert "was stopped, and read" in done.stdout
    assert "groups are as the file itself gives them" in done.stdout
    assert list(tmp_path.glob("delays.parquet/*.parquet"))
