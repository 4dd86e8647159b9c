"""Measures the start and the reset of a test's broker, `kwire.testing.Kafka`.

It measures the elapsed time until the broker serves, and the processor time, which is less affected
by a busy machine. That of a start includes modules that the broker imports later, while idle.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Apache, Kwire
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.rows import Figure
from kwire.testing import Kafka

HEADING: Final = "A broker for tests"
RESULTS: Final = Path(report.__file__).with_name("RESULTS.md")
FILE_COLUMNS: Final = 160

WALL: Final = Figure("until it serves", "ms", more_is_better=False)
PROCESSOR: Final = Figure("processor", "ms", more_is_better=False)

START_LIMIT_MS: Final = 300.0
RESET_LIMIT_MS: Final = 20.0

TEST_S: Final = 0.1
"""Duration of a test, after which the next one needs a reset broker."""

UNCOMPILED: Final = "PYTHONDONTWRITEBYTECODE"
"""If this variable is set, each start compiles kwire; usually pip does when it installs it."""


def measure_series(rounds: int, resets: int) -> list[Series]:
    """Start a broker `rounds` times, and reset each one `resets` times."""
    start, reset = "start", "reset"
    started = Series(start, "start", WALL, None, START_LIMIT_MS)
    starting = Series(start, "start", PROCESSOR, None)
    renewed = Series(reset, "fresh again", WALL, None, RESET_LIMIT_MS)
    at_once = Series("reset at once", "fresh again, at once", WALL, None)
    renewing = Series(reset, "fresh again", PROCESSOR, None)
    for _ in range(rounds):
        once = _life(started, renewed, 0, 0.0)
        more = _life(started, renewed, resets, TEST_S)
        _life(started, at_once, resets, 0.0)
        starting.add(Kwire.name, once)
        renewing.add(Kwire.name, (more - once) / resets)
    return [started, starting, renewed, at_once, renewing]


def _life(started: Series, renewed: Series, resets: int, test_s: float) -> float:
    """Return the processor time in ms that a broker takes from its start to its end."""
    before = _children_ms()
    kafka = Kafka()
    started.add(Kwire.name, _took_ms(kafka.start))
    kafka.topics()  # so that a client has used it
    for _ in range(resets):
        time.sleep(test_s)
        renewed.add(Kwire.name, _took_ms(kafka.reset))
        kafka.topics()
    kafka.stop()
    return _children_ms() - before


def _took_ms(work: Callable[[], None]) -> float:
    start = time.monotonic()
    work()
    return (time.monotonic() - start) * 1e3


def _children_ms() -> float:
    """Processor time in ms of the ended child processes and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=5, show_default=True, help="Rounds, each with three brokers.")
@click.option("--resets", default=20, show_default=True, help="Resets of the second and third.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="The report to update. [default: RESULTS.md of the benchmarks]",
)
def main(rounds: int, resets: int, output: Path) -> None:
    """Measure the start and the reset of kwire.testing.Kafka."""
    os.environ.pop(UNCOMPILED, None)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    note = (
        f"`kwire.testing.Kafka` with `--control`: {3 * rounds} starts, {rounds * resets} resets"
        f" {TEST_S:g} s after the one before, as many at once."
        " `python -m kwire.conformance.suite.fresh` repeats it."
    )
    section = report.Section(HEADING, note, measure_series(rounds, resets))
    report.print_section(console, section, Apache.name)
    report.update_report(console, output, section, Apache.name)


if __name__ == "__main__":
    main()
