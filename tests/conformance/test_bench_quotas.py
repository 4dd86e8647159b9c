"""Runs a short quota benchmark on kwire."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_producer_above_its_quota_is_throttled_to_it() -> None:
    """Within one measured span a producer may use the whole quota at once, as in Apache Kafka."""
    words = ["--only-kwire", "--rounds=1", "--seconds=15", "--quota=200000"]
    done = subprocess.run(
        [sys.executable, "-m", "kwire.conformance.bench.quotas", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    (row,) = (line for line in done.stdout.splitlines() if "kwire" in line)
    whole, spans = map(int, re.findall(r"(\d+)% \(", row))
    assert 50 <= whole <= 150
    assert 50 <= spans <= 120
