"""Tests the program that runs a suite on both brokers, and how it reads pytest's output."""

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


def test_run_suite_returns_the_passed_tests_and_the_time(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    count, took_s = run_suite("kwire", "-p", "no:cacheprovider", suite=str(tmp_path))
    assert count == 1
    assert took_s > 0


def test_run_suite_raises_pytests_output_after_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    with pytest.raises(SuiteFailed, match="1 failed"):
        run_suite("apache", "-p", "no:cacheprovider", suite=str(tmp_path))
