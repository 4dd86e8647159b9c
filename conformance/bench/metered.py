"""`python -m kwire.conformance.bench.metered`: measures what metrics cost.

Three brokers take turns at the same work: kwire at an earlier commit, kwire without metrics, and
kwire with metrics that a scraper reads each second.  All are on one processor, with the load
generator and the scraper on another one.  Each turn gives the client's figure, and the broker's
processor time for a request, which other programs disturb least.  A turn lasts a second, because
each one has one scrape.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice, permutations
from multiprocessing.synchronize import Event
from pathlib import Path

import click
from rich.console import Console

from kwire.conformance.bench import report
from kwire.conformance.bench.against import (
    PROCESSOR,
    WARM_S,
    EarlierKwire,
    prefer_processors,
    processor_s,
)
from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.measure import Progress, Series, new_topic
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import ROWS, Figures, Row
from kwire.testing.hosting.ports import free_port

HEADING = "What metrics cost"
RESULTS = Path(__file__).with_name("RESULTS.md")
FILE_COLUMNS = 190
NO_LESS_THAN = 0.97
SCRAPE_INTERVAL_S = 1.0
KEYS = ("tiny1", "tiny5", "connections", "fetch")
REFERENCE = "reference"

NOTE = (
    "kwire as it is, in turns with a reference: without metrics beside {commit}, and with metrics,"
    " scraped once in each turn, beside itself without. {rounds} turns of {seconds:g} s each; all"
    " brokers on one processor, load generator and scraper on another."
    " `python -m kwire.conformance.bench.metered` repeats it."
)


class MeteredKwire(Kwire):
    """`kwire serve` with metrics."""

    name = "kwire with metrics"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.metrics_port = free_port()
        self.settings["metrics.port"] = str(self.metrics_port)


def scrape_each_second(port: int, wanted: Event) -> None:
    """Read all metrics once a second while `wanted` is set, until the process is ended."""
    url = f"http://127.0.0.1:{port}/metrics"
    while True:
        wanted.wait()
        due = time.monotonic() + SCRAPE_INTERVAL_S
        with urllib.request.urlopen(url, timeout=60) as reply:
            reply.read()
        time.sleep(max(0.0, due - time.monotonic()))


class ScrapingProcess:
    """Another process that scrapes a broker during its turns."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._wanted = context.Event()
        arguments = (port, self._wanted)
        self._process = context.Process(target=scrape_each_second, args=arguments, daemon=True)
        self._process.start()

    @contextmanager
    def during(self, *, wanted: bool) -> Iterator[None]:
        """Scrape during the block, if `wanted`."""
        if wanted:
            self._wanted.set()
        try:
            yield
        finally:
            self._wanted.clear()

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


class Work:
    """One row's work on one broker, in many short turns on the same topic."""

    def __init__(self, row: Row, broker: Kwire) -> None:
        self._row, self._broker, self._topic = row, broker, new_topic()
        row.prepare(broker, self._topic)
        row.sample(broker.address, self._topic, WARM_S)

    def turn(self, seconds: float) -> Figures:
        """Return the figures of a turn, with the broker's processor time for a request."""
        start_s = processor_s(self._broker.pid)
        sample = self._row.sample(self._broker.address, self._topic, seconds)
        took_s = processor_s(self._broker.pid) - start_s
        figures = self._row.figures_of(sample)
        return figures | ({PROCESSOR.name: took_s * 1e6 / sample.requests} if took_s else {})

    def end(self) -> None:
        self._broker.delete_topic(self._topic)


def measure_row(
    row: Row,
    brokers: dict[str, Kwire],
    scraper: ScrapingProcess,
    seconds: float,
    rounds: int,
    say: Progress,
) -> list[Series]:
    """Return the series of one row: metrics off beside before, and on beside off.

    `brokers` are before, off and on.  Their order changes from round to round.
    """
    shown = [each for each in row.figures if each.name != "p99"]  # a short turn has too few
    figures = [replace(figure, target=NO_LESS_THAN) for figure in (*shown, PROCESSOR)]
    off = [Series(row.key, f"{row.title}; metrics off", each, each.target) for each in figures]
    on = [Series(row.key, f"{row.title}; metrics on", each, each.target) for each in figures]
    say(row.title)
    works = {name: Work(row, broker) for name, broker in brokers.items()}
    for order in islice(cycle(permutations(works)), rounds):
        taken = {}
        for name in order:
            with scraper.during(wanted=name == "on"):
                taken[name] = works[name].turn(seconds)
        for series_list, ours, theirs in ((off, "off", "before"), (on, "on", "off")):
            for series in series_list:
                name = series.figure.name
                if name in taken[ours] and name in taken[theirs]:
                    series.add(Kwire.name, taken[ours][name])
                    series.add(REFERENCE, taken[theirs][name])
    for work in works.values():
        work.end()
    return [*off, *on]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--against", default="HEAD~1", show_default=True, help="The earlier commit.")
@click.option("--rounds", default=40, show_default=True, help="Turns of each broker in each row.")
@click.option("--seconds", default=1.0, show_default=True, help="Length of a turn in seconds.")
@click.option("--only", multiple=True, type=click.Choice(KEYS))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
def main(
    against: str, rounds: int, seconds: float, only: tuple[str, ...], output: Path | None
) -> None:
    """Measure kwire before metrics, without them, and with them, in turns."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    rows = [row for row in ROWS if row.key in (only or KEYS)]
    with tempfile.TemporaryDirectory(prefix="kwire-metrics-") as folder:
        root = Path(folder)
        on = MeteredKwire(root / "on")
        brokers = {
            "before": EarlierKwire(against, root / "before"),
            "off": Kwire(root / "off"),
            "on": on,
        }
        with running(*brokers.values()):
            scraper = ScrapingProcess(on.metrics_port)
            try:
                prefer_processors(*brokers.values())
                series = [
                    each
                    for row in rows
                    for each in measure_row(row, brokers, scraper, seconds, rounds, console.print)
                ]
            finally:
                scraper.end()
    note = NOTE.format(commit=against, rounds=rounds, seconds=seconds)
    section = Section(HEADING, note, series)
    report.print_section(console, section, REFERENCE)
    path = output or (None if only else RESULTS)
    if path is not None:
        report.update_report(console, path, section, REFERENCE)


if __name__ == "__main__":
    main()
