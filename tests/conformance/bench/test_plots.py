"""Tests the plot of RESULTS.md: its ratios from series and from tables, and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.bench import report
from kwire.conformance.bench.blocks.sections import HEADINGS
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.plots import ratios
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure

PEER = "peer"


@pytest.fixture
def sections() -> list[Section]:
    """A series of two rounds, one of a single round, and one without the peer."""
    rate = Series("rate", "tiny requests", Figure("requests", "req/s"), None)
    memory = Series("memory", "memory", Figure("after load, idle", "MB", more_is_better=False), 1)
    alone = Series("alone", "alone", Figure("p50", "µs", more_is_better=False), None)
    for ours, theirs in [(200.0, 100.0), (50.0, 100.0)]:
        rate.add("kwire", ours)
        rate.add(PEER, theirs)
    memory.add("kwire", 10.0)
    memory.add(PEER, 40.0)
    alone.add("kwire", 3.0)
    return [Section("Warm, raw sockets", "note", [rate, memory, alone])]


def test_ratios_of_series_and_of_their_tables_are_the_same(sections: list[Section]) -> None:
    document = report.markdown(sections, [("cores", "2")], "how", PEER)
    found = ratios.of_sections(sections, PEER)
    assert [ratio[1:] for ratio in found] == [
        ("tiny requests: requests", 1.25, 0.5, 2.0),
        ("memory: after load, idle", 4.0, 4.0, 4.0),
    ]
    assert ratios.of_tables(document, HEADINGS) == found


def test_section_that_another_program_writes_is_not_plotted(sections: list[Section]) -> None:
    sections[0].heading = "Spark"
    document = report.markdown(sections, [("cores", "2")], "how", PEER)
    assert not ratios.of_tables(document, HEADINGS)


def test_plot_drawn_twice_is_the_same_file_with_each_row(
    sections: list[Section], tmp_path: Path
) -> None:
    found = ratios.of_sections(sections, PEER)
    files = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for file in files:
        ratios.draw(found, file, PEER)
    first, second = (file.read_text() for file in files)
    assert first == second
    assert all(ratio.label in first for ratio in found)


def test_plot_is_shown_once_before_the_first_section(sections: list[Section]) -> None:
    document = report.markdown(sections, [("cores", "2")], "how", PEER)
    shown = report.show_plot(report.show_plot(document, "results.svg"), "results.svg")
    assert shown.count("(results.svg)") == 1
    assert shown.index("(results.svg)") < shown.index("## Warm")
