"""Runs a short measurement of the start and reset of a test's broker."""

from __future__ import annotations

import pytest

from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.suite import fresh


@pytest.mark.slow
@pytest.mark.usefixtures("brokers_are_started")
def test_fresh_measures_every_figure() -> None:
    series = fresh.measure_series(rounds=1, resets=2)
    counts = [len(measured_series.values[Kwire.name]) for measured_series in series]
    assert counts == [3, 1, 2, 2, 1]
    # A reset's processor time is the difference of two lives: of two resets it may be nothing.
    *lasting, _ = series
    assert all(value > 0 for figures in lasting for value in figures.values[Kwire.name])
    text = report.put_section("# A report\n", report.Section("h", "n", series), "Apache Kafka")
    assert "≤ 20 ms" in text
