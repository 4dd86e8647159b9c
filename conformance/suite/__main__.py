"""Runs the tests of stock clients in tests/suite on kwire.testing and on Apache Kafka, in turns.

Each broker runs the whole suite in one process.  The result is the elapsed time from pytest's start
to its end; Apache Kafka is started once.  With `--workers`, parallel workers run the suite on kwire
alone, again and again, and every run must pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Apache, Kwire
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.rows import Figure

HEADING: Final = "A suite of tests"
RESULTS: Final = Path(report.__file__).with_name("RESULTS.md")
SUITE: Final = "tests/suite"
FILE_COLUMNS: Final = 160
PASSED: Final = re.compile(r"^(\d+) passed in ", re.MULTILINE)
ON: Final = {Kwire.name: "kwire", Apache.name: "apache"}

WHOLE: Final = Figure("from start to end", "s", more_is_better=False)


class SuiteFailed(Exception):
    """Not all tests passed; the message is pytest's output."""


def run_suite(on: str, *arguments: str, suite: str = SUITE) -> tuple[int, float]:
    """Return the number of tests that passed, and the seconds that the run took.

    Raises SuiteFailed.
    """
    command = [sys.executable, "-m", "pytest", "-q", *arguments, suite]
    start = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, "KWIRE_SUITE_ON": on},
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - start
    passed = PASSED.search(done.stdout)
    if done.returncode or passed is None:
        raise SuiteFailed(done.stdout + done.stderr)
    return int(passed[1]), took_s


def compare(rounds: int) -> report.Section:
    """Run the suite on both brokers, in turns. Raises SuiteFailed."""
    series = Series("suite", "the suite", WHOLE, None)
    count = 0
    for number in range(rounds):
        for name, on in list(ON.items())[:: 1 if number % 2 == 0 else -1]:
            count, took_s = run_suite(on, "-n", "0")
            series.add(name, took_s)
    note = (
        f"`tests/suite`, {count} tests by confluent-kafka and kafka-python: records, groups and"
        " their rebalances, transactions, topics, and a broker that is killed and comes back. In"
        f" one process; Apache Kafka {VERSION} is started once. {rounds} rounds. `make suite`"
        " repeats it."
    )
    return report.Section(HEADING, note, [series])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--rounds", default=2, show_default=True, help="Runs on each broker; with --workers, all runs."
)
@click.option("--workers", type=click.IntRange(2), help="Parallel workers; runs on kwire only.")
def main(rounds: int, workers: int | None) -> None:
    """Run tests/suite on kwire and on Apache Kafka, and report how long each took."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    try:
        if workers is None:
            section = compare(rounds)
            report.print_section(console, section, Apache.name)
            RESULTS.write_text(report.put_section(RESULTS.read_text(), section, Apache.name))
            console.print(f"written: {RESULTS}")
            return
        for number in range(1, rounds + 1):
            count, took_s = run_suite("kwire", "-n", str(workers), "--dist", "load")
            console.print(f"{number}: {count} passed, {workers} workers, {took_s:.0f} s")
    except SuiteFailed as failure:
        console.print(str(failure), markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
