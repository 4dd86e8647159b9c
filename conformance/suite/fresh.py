"""How soon a test's broker is there, and fresh again: `kwire.testing.Kafka`.

The wall's time until it serves, and the processor's, which says more on a machine at other work:
that of a start holds what is imported after it, while nobody asks for anything.
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
"""How long a test takes, after which the next one wants a fresh broker."""

UNCOMPILED: Final = "PYTHONDONTWRITEBYTECODE"
"""Where this is set each start compiles kwire anew, which pip does when it installs it."""


def measured(rounds: int, resets: int) -> list[Series]:
    """Start a broker `rounds` times, and have it fresh so many times each."""
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
    """Milliseconds of the processor that a broker has taken from its start to its end."""
    before = _children_ms()
    kafka = Kafka()
    started.add(Kwire.name, _took_ms(kafka.start))
    kafka.topics()  # a client has used it
    for _ in range(resets):
        time.sleep(test_s)
        renewed.add(Kwire.name, _took_ms(kafka.reset))
        kafka.topics()
    kafka.stop()
    return _children_ms() - before


def _took_ms(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * 1e3


def _children_ms() -> float:
    """Of the processes that were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=5, show_default=True, help="Brokers, three times.")
@click.option("--resets", default=20, show_default=True, help="Of the second and third.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="The report whose section this is. [default: RESULTS.md of the benchmarks]",
)
def main(rounds: int, resets: int, output: Path) -> None:
    """Measure how soon kwire.testing.Kafka is there, and fresh again."""
    os.environ.pop(UNCOMPILED, None)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    note = (
        f"`kwire.testing.Kafka` with `--control`: {3 * rounds} starts, {rounds * resets} resets"
        f" {TEST_S:g} s after the one before, as many at once."
        " `python -m kwire.conformance.suite.fresh` repeats it."
    )
    made = report.Section(HEADING, note, measured(rounds, resets))
    report.print_section(console, made, Apache.name)
    before = output.read_text() if output.exists() else ""
    output.write_text(report.put_section(before, made, Apache.name))
    console.print(f"written: {output}")


if __name__ == "__main__":
    main()
