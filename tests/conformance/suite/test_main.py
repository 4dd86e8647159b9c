"""The program that runs a suite on both brokers: what it makes of what pytest says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.suite.__main__ import SuiteFailed, run_suite

pytestmark = pytest.mark.slow

TESTS = """
import os

def test_it():
    assert os.environ["KWIRE_SUITE_ON"] == "kwire"
"""


def test_a_suite_that_passes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    count, took_s = run_suite("kwire", "-p", "no:cacheprovider", suite=str(tmp_path))
    assert count == 1
    assert took_s > 0


def test_a_suite_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    with pytest.raises(SuiteFailed, match="1 failed"):
        run_suite("apache", "-p", "no:cacheprovider", suite=str(tmp_path))
