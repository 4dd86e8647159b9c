"""The program that measures how soon a test's broker is there, shortly."""

from __future__ import annotations

import pytest

from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.suite import fresh


@pytest.mark.slow
def test_each_figure_is_measured() -> None:
    series = fresh.measured(rounds=1, resets=2)
    counts = [len(each.values[Kwire.name]) for each in series]
    assert counts == [3, 1, 2, 2, 1]
    # A reset's processor time is the difference of two lives: of two resets it may be nothing.
    *lasting, _ = series
    assert all(value > 0 for each in lasting for value in each.values[Kwire.name])
    text = report.put_section("# A report\n", report.Section("h", "n", series), "Apache Kafka")
    assert "≤ 20 ms" in text
