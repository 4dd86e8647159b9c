"""The program that measures quotas: shortly, on kwire alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_who_offers_more_than_its_quota_is_held_to_it() -> None:
    """Within a span that is measured a producer may have all that it allows, as in Apache Kafka."""
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
