"""The figures of clusters: what is kept of them, and a whole run of little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from kwire.conformance.bench.cluster import figures
from kwire.conformance.bench.cluster.__main__ import PARTS, main
from kwire.conformance.bench.cluster.figures import Book
from kwire.conformance.bench.cluster.subjects import APACHE, KWIRE, running


@pytest.fixture
def book() -> Book:
    """Kills of two leaders each, and a shutdown that one record did not survive on kwire."""
    made = Book()
    made.add("failover", KWIRE, {"each": [6.0, 8.0]})
    made.add("failover", APACHE, {"each": [7.0, 12.0]})
    made.add("shutdown", KWIRE, {"failed": [1.0], "longest": [250.0], "stop": [0.5, 0.7, 0.6]})
    made.add("shutdown", APACHE, {"failed": [0.0]})
    made.add("catch-up", KWIRE, {"bytes": 300.0})
    made.add("catch-up", APACHE, {"bytes": 200.0})
    made.close()
    return made


def test_the_worst_of_all_losses_is_kept(book: Book) -> None:
    told = {(each["row"], each["figure"]): each for each in book.as_json()}
    assert told["failover", "worst"]["values"] == {KWIRE: [8.0], APACHE: [12.0]}
    assert told["failover", "each"]["medians"] == {KWIRE: 7.0, APACHE: 9.5}
    assert told["failover", "worst"]["times_better"] == pytest.approx(1.5)
    assert told["failover", "worst"]["met"] is True
    assert told["catch-up", "bytes"]["times_better"] == pytest.approx(1.5)


def test_a_record_that_failed_is_seen(book: Book) -> None:
    told = {(each["row"], each["figure"]): each for each in book.as_json()}
    assert told["shutdown", "failed"]["met"] is False
    assert told["shutdown", "failed"]["times_better"] is None  # not a share of none


def test_no_record_that_failed_is_shown_on_either_side() -> None:
    book = Book()
    for subject in (KWIRE, APACHE):
        book.add("shutdown", subject, {"failed": [0.0]})
    assert book.markdown("").count("| 0.00 | 0.00 |  |") == 1


def test_only_what_was_measured_is_shown(book: Book) -> None:
    console = Console(width=200, record=True)
    book.print(console, "as planted")
    text = console.export_text()
    assert "as planted" in text
    assert "catches up" in text
    assert "librdkafka" not in text
    assert book.markdown("as planted").count("\n| ") == 2 + 2 + 3 + 1


def test_memory_has_a_figure_for_each_look() -> None:
    book = Book()
    for when in ("idle", "after load", "many partitions"):
        book.add("memory", KWIRE, figures.memory(when, 90.0, 120.0))
    assert [series.values[KWIRE] for series in book.measured] == [[90.0], [120.0]] * 3


@pytest.mark.java
@pytest.mark.slow
def test_memory_is_that_of_all_brokers(tmp_path: Path, zookeeper_libs: Path) -> None:
    with running(KWIRE, tmp_path / "turn", 6000) as subject:
        pss, rss = subject.memory_mb()
    assert 30 < pss <= rss < 600
    assert not (tmp_path / "turn").exists()


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
def test_a_quick_run_has_all_figures(tmp_path: Path, zookeeper_libs: Path) -> None:
    options = ["--quick", "--only-kwire", "--report", str(tmp_path), "--directory", str(tmp_path)]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert {each["row"] for each in told} == {*PARTS, "memory"}
    assert all(
        value > 0 for each in told if each["limit"] is None for value in each["values"][KWIRE]
    )
    failed = next(each for each in told if each["figure"] == "failed")
    assert failed["values"] == {KWIRE: [0.0]}
