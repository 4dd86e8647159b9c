"""The program that measures quotas: shortly, on kwire alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_who_offers_more_than_its_quota_is_held_to_it() -> None:
    """In the first ten seconds a producer may have all that they allow, as in Apache Kafka."""
    words = ["--only-kwire", "--rounds=1", "--seconds=12", "--quota=200000"]
    done = subprocess.run(
        [sys.executable, "-m", "kwire.conformance.bench.quotas", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    share = re.search(r"kwire.*?(\d+)%", done.stdout)
    assert share is not None, done.stdout
    assert 50 <= int(share[1]) <= 150
