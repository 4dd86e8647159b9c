"""Runs a short Spark benchmark, and writes its section into a report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.conformance.bench import report, spark
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.rows import Figure
from kwire.conformance.bench.spark import PARTITIONS, UNIT, WORKS

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
    done = CliRunner().invoke(spark.main, ["--records", str(UNIT + 1)])
    assert done.exit_code == 2
    assert f"a multiple of {UNIT}" in done.output
    assert spark.RECORDS % UNIT == 0
