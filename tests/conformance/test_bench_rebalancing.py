"""Runs a short rebalance benchmark with each protocol, and tests the members' assignor."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.conformance.bench import rebalancing, report
from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.members import assign_evenly


@given(st.integers(1, 9), st.lists(st.integers(0, 9), max_size=30))
def test_balanced_assignment_keeps_owned_partitions(members: int, owners: list[int]) -> None:
    partitions = len(owners)
    owned = {
        str(number): frozenset(index for index in range(partitions) if owners[index] == number)
        for number in range(members)
    }
    dealt = assign_evenly(owned, partitions)
    assert sorted(index for indexes in dealt.values() for index in indexes) == list(
        range(partitions)
    )
    counts = [len(these) for these in dealt.values()]
    assert max(counts) - min(counts) <= 1
    for name, these in owned.items():
        assert len(these & dealt[name]) >= min(len(these), partitions // members)


@pytest.mark.long
def test_protocol_is_measured_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "RUSH_S", 0.2)
    monkeypatch.setattr(rebalancing, "REST_S", 0.2)
    broker = Kwire(tmp_path / "kwire")
    series = []
    with running(broker):
        broker.restart(rebalancing.SETTINGS)
        for protocol in rebalancing.PROTOCOLS:
            series += rebalancing.measure_series(protocol, [broker], 1, members=10, partitions=25)
    assert len(series) == len(rebalancing.PROTOCOLS) * len(rebalancing.FIGURES)
    assert min(figures.values["kwire"][0] for figures in series) > 0
    text = report.put_section("# A report\n", rebalancing.section(1, series), "Apache Kafka")
    assert "after 2 have left at once" in text
