"""Runs short Spark benchmarks, and writes their sections into a report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.conformance.bench import report
from kwire.conformance.bench.__main__ import OTHER_PROGRAMS
from kwire.conformance.bench.brokers import External
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import Series, new_topic
from kwire.conformance.bench.rows import Figure
from kwire.conformance.bench.spark import latency, throughput
from kwire.conformance.bench.spark.latency import MICRO_BATCHES, P50, P99, REAL_TIME
from kwire.conformance.bench.spark.throughput import PARTITIONS, UNIT, WORKS

TIMEOUT_S = 1500


def section(heading: str, rate: float) -> report.Section:
    series = Series("work", f"work of {heading}", Figure("rows", "rows/s"), 1.0)
    series.add("kwire", rate)
    series.add("peer", 100.0)
    return report.Section(heading, "A note.", [series])


def test_section_replaces_the_old_one_and_is_kept_in_a_new_report() -> None:
    whole = report.markdown([section("One", 1), section("Two", 2)], [], "How.", "peer")
    more = report.put_section(whole, section("Spark", 3), "peer")
    assert more.startswith(whole)
    assert re.findall("^## (.*)", more, re.M) == ["One", "Two", "Spark"]
    assert report.put_section(more, section("Spark", 3), "peer") == more
    changed = report.put_section(more, section("One", 7), "peer")
    assert changed == more.replace("| 1.00 | 100 | 0.01 |", "| 7.00 | 100 | 0.07 |")
    assert report.keep_section(whole, more, "Spark") == more
    assert report.keep_section(whole, whole, "Spark") == whole


def test_whole_run_of_the_benchmark_keeps_the_sections_on_spark() -> None:
    headings = [part.HEADING for part in OTHER_PROGRAMS]
    assert {throughput.HEADING, latency.HEADING} <= set(headings)
    assert len(set(headings)) == len(headings)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_short_spark_run_measures_every_kind_of_work(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    command = [sys.executable, "-m", "kwire.conformance.bench.spark", "--only-kwire"]
    command += ["--records", str(2 * UNIT), "--rounds", "1", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    text = output.read_text()
    assert f"{2 * UNIT:,} records of 100 B in {PARTITIONS} partitions" in text
    for work in WORKS:
        rate = re.search(rf"\| {re.escape(work.title)} \| rows, rows/s \| ([\d,.]+) \|", text)
        assert rate, text
        assert float(rate[1].replace(",", "")) > 0


def test_number_of_records_must_be_a_multiple_of_the_unit() -> None:
    done = CliRunner().invoke(throughput.main, ["--records", str(UNIT + 1)])
    assert done.exit_code == 2
    assert f"a multiple of {UNIT}" in done.output
    assert throughput.RECORDS % UNIT == 0


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_short_run_measures_the_latency_of_real_time_mode_and_micro_batches(
    tmp_path: Path,
) -> None:
    output = tmp_path / "results.md"
    command = [sys.executable, "-m", "kwire.conformance.bench.spark.latency", "--only-kwire"]
    command += ["--records", "20", "--warm", "0.1", "--rounds", "1", "--output", str(output)]
    command += ["--only", REAL_TIME.key, "--only", MICRO_BATCHES.key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    text = output.read_text()
    for trigger in (REAL_TIME, MICRO_BATCHES):
        for figure in (P50, P99):
            row = rf"\| {re.escape(trigger.title)} \| {figure.name}, ms \| ([\d,.]+) \|"
            found = re.search(row, text)
            assert found, text
            assert float(found[1].replace(",", "")) > 0
    assert "On kwire, micro-batches take" in text


def of_rounds(row: str, figure: Figure, values: list[float]) -> Series:
    return Series(row, row, figure, None, values={"kwire": values})


def test_micro_batches_are_compared_with_real_time_mode_round_by_round() -> None:
    series = [
        of_rounds(REAL_TIME.key, P50, [1.0, 2.0, 10.0]),
        of_rounds(REAL_TIME.key, P99, [5.0, 5.0, 5.0]),
        of_rounds(MICRO_BATCHES.key, P50, [20.0, 20.0, 20.0]),
        of_rounds(MICRO_BATCHES.key, P99, [50.0, 50.0, 50.0]),
    ]
    sentence = latency.against_micro_batches(series, "kwire")
    assert "10.0 times the p50 and 10.0 times the p99" in sentence
    assert latency.against_micro_batches(series[:2], "kwire") == ""
    assert latency.against_micro_batches(series, "another") == ""


def test_percentiles_are_the_median_and_the_time_that_one_in_a_hundred_exceeds() -> None:
    times_ns = [number * 1_000_000 for number in range(1000, 0, -1)]
    assert latency.percentiles_ms(times_ns) == {"p50": 500.5, "p99": 991.0}
    assert latency.percentiles_ms([2_000_000]) == {"p50": 2.0, "p99": 2.0}


@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.5.6", False), ("4.0.0", False), ("4.1.0", True), ("4.10.0", True), ("5.0.0.dev1", True)],
)
def test_real_time_mode_comes_with_spark_4_1(version: str, expected: bool) -> None:
    assert latency.has_real_time(version) is expected


def test_latency_on_an_older_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.conformance.spark.installed_version", lambda: "4.0.0")
    done = CliRunner().invoke(latency.main, [])
    assert done.exit_code == 1
    assert "Real-time Mode needs Spark 4.1 or newer, this is 4.0.0" in done.output


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic of one partition."""
    name = new_topic()
    host, port = bootstrap.split(":")
    External("kwire", (host, int(port))).create_topic(name)
    return name


@pytest.mark.slow
def test_records_are_timed_from_the_producer_to_the_consumer(bootstrap: str, topic: str) -> None:
    sender = latency.Sender(bootstrap, topic)
    with latency.TimedConsumer(bootstrap, topic) as arrivals:
        assert sender.send(2) == range(2)
        assert sender.send(3) == range(2, 5)
        arrived_ns = arrivals.wait_for(range(5), lambda: None)
    sender.close()
    assert all(at > sent for at, sent in zip(arrived_ns, sender.sent_ns, strict=True))
    assert sender.sent_ns == sorted(sender.sent_ns)


@pytest.mark.slow
def test_wait_for_records_ends_when_their_query_has_failed(bootstrap: str, topic: str) -> None:
    def still() -> None:
        raise RequestFailed("the query has ended")

    with (
        latency.TimedConsumer(bootstrap, topic) as arrivals,
        pytest.raises(RequestFailed, match="the query has ended"),
    ):
        arrivals.wait_for(range(1), still)
