"""How soon a test's broker is there, and fresh again: `kwire.testing.Kafka`.

The wall's time until it serves, and the processor's, which says more on a machine at other work:
that of a start holds what is imported after it, while nobody asks for anything.
"""

from __future__ import annotations

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


def measured(rounds: int, resets: int) -> list[Series]:
    """Start a broker `rounds` times, and have it fresh so many times each."""
    start, reset = "start", "reset"
    started = Series(start, "start", WALL, None, START_LIMIT_MS)
    starting = Series(start, "start", PROCESSOR, None)
    renewed = Series(reset, "fresh again", WALL, None, RESET_LIMIT_MS)
    renewing = Series(reset, "fresh again", PROCESSOR, None)
    for _ in range(rounds):
        once = _life(started, renewed, 0)
        more = _life(started, renewed, resets)
        starting.add(Kwire.name, once)
        renewing.add(Kwire.name, (more - once) / resets)
    return [started, starting, renewed, renewing]


def _life(started: Series, renewed: Series, resets: int) -> float:
    """Milliseconds of the processor that a broker has taken from its start to its end."""
    before = _children_ms()
    kafka = Kafka()
    started.add(Kwire.name, _took_ms(kafka.start))
    kafka.topics()  # a client has used it
    for _ in range(resets):
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
@click.option("--rounds", default=5, show_default=True, help="Brokers, twice.")
@click.option("--resets", default=20, show_default=True, help="Of every second one.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="The report whose section this is. [default: RESULTS.md of the benchmarks]",
)
def main(rounds: int, resets: int, output: Path) -> None:
    """Measure how soon kwire.testing.Kafka is there, and fresh again."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    note = (
        f"`kwire.testing.Kafka` with `--control`: {2 * rounds} starts, {rounds * resets} resets."
        " `python -m kwire.conformance.suite.fresh` repeats it."
    )
    made = report.Section(HEADING, note, measured(rounds, resets))
    report.print_section(console, made, Apache.name)
    before = output.read_text() if output.exists() else ""
    output.write_text(report.put_section(before, made, Apache.name))
    console.print(f"written: {output}")


if __name__ == "__main__":
    main()
