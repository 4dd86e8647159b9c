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
    assert counts == [2, 1, 2, 1]
    assert all(value > 0 for each in series for value in each.values[Kwire.name])
    text = report.put_section("# A report\n", report.Section("h", "n", series), "Apache Kafka")
    assert "≤ 20 ms" in text
