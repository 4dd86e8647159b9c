"""Tests the figures of clusters, and runs a short benchmark of a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from kwire.conformance.bench.cluster import figures
from kwire.conformance.bench.cluster.__main__ import PARTS, main
from kwire.conformance.bench.cluster.figures import Book
from kwire.conformance.bench.cluster.subjects import (
    ALONE,
    BESIDE_CONTROLLER,
    KWIRE,
    ON_ZOOKEEPER,
    Contest,
)

APACHE = ON_ZOOKEEPER.apache


@pytest.fixture
def book() -> Book:
    """Figures of two killed leaders of each broker, and of a shutdown with one failure on kwire."""
    figures = Book(APACHE)
    figures.add("failover", KWIRE, {"each": [6.0, 8.0]})
    figures.add("failover", APACHE, {"each": [7.0, 12.0]})
    figures.add("shutdown", KWIRE, {"failed": [1.0], "longest": [250.0], "stop": [0.5, 0.7, 0.6]})
    figures.add("shutdown", APACHE, {"failed": [0.0]})
    figures.add("catch-up", KWIRE, {"bytes": 300.0})
    figures.add("catch-up", APACHE, {"bytes": 200.0})
    figures.close()
    return figures


def test_book_has_the_worst_and_the_median_failover(book: Book) -> None:
    figures = {(entry["row"], entry["figure"]): entry for entry in book.as_json()}
    assert figures["failover", "worst"]["values"] == {KWIRE: [8.0], APACHE: [12.0]}
    assert figures["failover", "each"]["medians"] == {KWIRE: 7.0, APACHE: 9.5}
    assert figures["failover", "worst"]["times_better"] == pytest.approx(1.5)
    assert figures["failover", "worst"]["met"] is True
    assert figures["catch-up", "bytes"]["times_better"] == pytest.approx(1.5)


def test_failed_record_misses_the_limit(book: Book) -> None:
    figures = {(entry["row"], entry["figure"]): entry for entry in book.as_json()}
    assert figures["shutdown", "failed"]["met"] is False
    assert figures["shutdown", "failed"]["times_better"] is None  # no ratio to a count of 0


def test_no_failed_record_meets_the_limit() -> None:
    book = Book(APACHE)
    for subject in (KWIRE, APACHE):
        book.add("shutdown", subject, {"failed": [0.0]})
    assert book.markdown("").count("| 0.00 | 0.00 |  |") == 1


@pytest.mark.parametrize(("seconds", "met"), [(0.2, True), (0.5, False)])
def test_client_with_short_backoffs_has_a_limit_without_sessions(seconds: float, met: bool) -> None:
    book = Book(ALONE.apache, ALONE.failover_limit_s)
    for subject in ALONE.names:
        book.add("client-failover", subject, {"short backoffs": [seconds]})
    (entry,) = book.as_json()
    assert (entry["limit"], entry["met"]) == (0.3, met)


def test_table_has_only_measured_figures(book: Book) -> None:
    console = Console(width=200, record=True)
    book.print(console, "as planted")
    text = console.export_text()
    assert "as planted" in text
    assert "catches up" in text
    assert "librdkafka" not in text
    assert book.markdown("as planted").count("\n| ") == 2 + 2 + 3 + 1


def test_report_names_the_apache_kafka_of_the_contest() -> None:
    book = Book(BESIDE_CONTROLLER.apache)
    book.add("join", KWIRE, {"created": 1.0, "joined": 2.0, "again": 3.0})
    book.add("join", BESIDE_CONTROLLER.apache, {"created": 2.0, "joined": 6.0, "again": 6.0})
    assert [entry["times_better"] for entry in book.as_json()] == [2.0, 3.0, 2.0]
    assert "| Apache Kafka 4.4.0 |" in book.markdown("")


def test_memory_has_figures_for_each_sample() -> None:
    book = Book(APACHE)
    for when in ("idle", "after load", "many partitions", "many topics"):
        book.add("memory", KWIRE, figures.memory(when, 90.0, 120.0))
    assert [series.values[KWIRE] for series in book.measured] == [[90.0], [120.0]] * 4


@pytest.mark.java
@pytest.mark.slow
def test_memory_is_the_sum_of_all_brokers(tmp_path: Path, zookeeper_libs: Path) -> None:
    with ON_ZOOKEEPER.running(KWIRE, tmp_path / "turn", 6000) as subject:
        pss, rss = subject.memory_mb()
    assert 30 < pss <= rss < 600
    assert not (tmp_path / "turn").exists()


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    ("contest", "kind"),
    [(ON_ZOOKEEPER, None), (BESIDE_CONTROLLER, "--kraft"), (ALONE, "--alone")],
    ids=["zookeeper", "kraft", "alone"],
)
def test_quick_cluster_run_has_all_figures(
    contest: Contest, kind: str | None, tmp_path: Path, zookeeper_libs: Path
) -> None:
    options = ["--quick", "--only-kwire", "--report", str(tmp_path), "--directory", str(tmp_path)]
    options += [kind] if kind else []
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    entries = json.loads((tmp_path / "figures.json").read_text())["figures"]
    left_out = set() if contest.can_grow else {"join"}
    assert {entry["row"] for entry in entries} == {*PARTS, "memory"} - left_out
    lost = {entry["figure"] for entry in entries if entry["row"] == "many"}
    has_controller = contest.has_controller or contest.kwire_has_controller
    assert ("the controller" in lost) == has_controller
    assert all(
        value > 0 for entry in entries if entry["limit"] is None for value in entry["values"][KWIRE]
    )
    failed = next(entry for entry in entries if entry["figure"] == "failed")
    assert failed["values"] == {KWIRE: [0.0]}
