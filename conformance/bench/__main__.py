"""`python -m kwire.conformance.bench`: measures kwire and Apache Kafka with the same load."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.bench import (
    encrypted,
    machine,
    metered,
    rebalancing,
    report,
    shares,
    steady,
)
from kwire.conformance.bench.against import compare_rows
from kwire.conformance.bench.brokers import (
    Apache,
    BenchBroker,
    BrokerFailed,
    External,
    Floor,
    Kwire,
    running,
)
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import Bench, Series, fresh_pair, touch_memory
from kwire.conformance.bench.plots import ratios
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import FIRST_SECONDS, ROWS
from kwire.conformance.bench.sizes import SIZES, measure_series
from kwire.conformance.bench.spark import latency, throughput
from kwire.conformance.bench.stock import STOCK
from kwire.conformance.bench.transactions import TRANSACTION_ROWS
from kwire.conformance.java import JavaMissing
from kwire.conformance.suite import __main__ as suite
from kwire.conformance.suite import fresh

CLIENTS = frozenset(client.key for client in STOCK)
TRANSACTIONS = frozenset(row.key for row in TRANSACTION_ROWS)
SIZE_KEYS = frozenset(size.key for size in SIZES)
PARTS = (
    "start",
    *(row.key for row in ROWS),
    *sorted(CLIENTS | TRANSACTIONS | SIZE_KEYS),
    "first",
)
OPEN_FILES = 16_384  # for both ends of the connections, and 10,000 partitions
TOUCH_BYTES_MAX = 8 << 30  # twice what the largest turn writes
OTHER_PROGRAMS = (
    throughput,
    latency,
    steady,
    encrypted,
    metered,
    shares,
    rebalancing,
    fresh,
    suite,
)
"""Programs that write other sections of the report; a whole run of this one keeps them."""
RESULTS = Path(__file__).with_name("RESULTS.md")
FILE_COLUMNS = 190  # the width of a table in a file or pipe
FIRST_SECONDS_ROUNDS = 3
STOCK_ROUNDS = 3

HOW = """All figures are of one run. The brokers take turns at the same work (A B, B A, ...), each
turn on a new topic of one replica, and each reply is checked. A figure is the median of the rounds,
with the smallest and the largest; "times better" is made round by round, above 1 where kwire is the
better one. The floor is a bare server in Python that checks a CRC and appends, nothing else
(`floor.py`). The brokers run with their defaults (Apache Kafka with the JVM options of its own
start script), unpinned, beside the load generator on the same cores. `make bench` repeats it."""


@dataclass
class BenchPlan:
    """What to measure, and for how long."""

    only: frozenset[str]
    seconds: float
    rounds: int
    warm_max_s: float
    quick: bool
    floor: bool

    def has(self, key: str) -> bool:
        return key in self.only if self.only else not (self.quick and key in NOT_QUICK)


FAILURES = (JavaMissing, ApacheKafkaError, BrokerFailed, RequestFailed)
NOT_QUICK = frozenset({"first"}) | CLIENTS | TRANSACTIONS | SIZE_KEYS


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Measure only these rows.")
@click.option("--seconds", default=1.5, show_default=True, help="Length of a turn in seconds.")
@click.option("--rounds", default=7, show_default=True, help="Turns of each broker in each row.")
@click.option("--warm", default=30.0, show_default=True, help="Limit to warm up a row, in seconds.")
@click.option("--quick", is_flag=True, help="Under 90 s: 2 rounds of 0.7 s, little warm-up.")
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
@click.option("--floor/--no-floor", default=True, help="Measure the bare server as well.")
@click.option("--against", help="A commit: compare with kwire of that commit, not Apache Kafka.")
@click.option("--bootstrap", help="HOST:PORT of a running broker to measure instead of kwire.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The file of the report. [default: RESULTS.md beside the code, for a whole run]",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the brokers' data. [default: a temporary directory]",
)
def main(
    only: tuple[str, ...],
    seconds: float,
    rounds: int,
    warm: float,
    quick: bool,
    only_kwire: bool,
    floor: bool,
    against: str | None,
    bootstrap: str | None,
    output: Path | None,
    directory: Path | None,
) -> None:
    """Measure kwire and Apache Kafka side by side; print tables and write the report."""
    if quick:
        seconds, rounds, warm = min(seconds, 0.7), min(rounds, 2), min(warm, 0.7)
    machine.allow_open_files(OPEN_FILES)
    plan = BenchPlan(frozenset(only), seconds, rounds, warm, quick, floor)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="kwire-bench-", dir=directory) as folder:
        root = Path(folder)
        if against:
            rows = [row for row in ROWS if plan.has(row.key)]
            rows += [row for row in TRANSACTION_ROWS if row.key in plan.only]
            with console.status("starting") as status:
                section = compare_rows(rows, against, root, seconds, rounds, status.update)
            report.print_section(console, section, against)
            return
        ours = External(Kwire.name, _address(bootstrap)) if bootstrap else Kwire(root / "kwire")
        brokers: list[BenchBroker] = [ours] if only_kwire else [ours, Apache(root / "apache")]
        with console.status("memory") as status:
            if not quick:
                touch_memory(min(machine.free_memory_bytes() // 2, TOUCH_BYTES_MAX))
            try:
                sections = measure(plan, brokers, root, status.update)
            except FAILURES as failure:
                raise click.ClickException(str(failure)) from failure
    for section in sections:
        report.print_section(console, section, Apache.name)
    if output is None and not (only or quick or only_kwire or bootstrap):
        output = RESULTS
    if output is not None:
        _write(sections, output)
        console.print(f"written: {output}")


def _write(sections: Sequence[Section], output: Path) -> None:
    """Write the report and its plot; sections of other programs are kept."""
    text = report.markdown(sections, machine.facts(), HOW, Apache.name)
    before = output.read_text() if output.exists() else ""
    for part in OTHER_PROGRAMS:
        text = report.keep_section(text, before, part.HEADING)
    if found := ratios.of_sections(sections, Apache.name):
        plot = output.with_name(f"{output.stem.lower()}.svg")
        ratios.draw(found, plot, Apache.name)
        text = report.show_plot(text, plot.name)
    output.write_text(text)


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def measure(
    plan: BenchPlan, brokers: Sequence[BenchBroker], root: Path, say: Callable[[str], None]
) -> list[Section]:
    """Measure everything in the plan, with one section for each kind of work."""
    names = [broker.name for broker in brokers if not isinstance(broker, External)]
    bench = Bench(plan.seconds, plan.rounds, plan.warm_max_s, say)
    memory: list[Series] = []
    sections: list[Section] = []
    if plan.has("start") and names:
        note = "From the start of the process on an empty directory (Apache Kafka's: formatted)."
        memory = bench.startups(root / "start", names)
        sections.append(Section("Start and memory", note, memory))
    with running(*brokers):
        sections += _warm(plan, bench, brokers, root)
        if memory and len(sections) > 1:
            memory += bench.memory_after_load(brokers)
    if plan.has("first") and names:
        bench.rounds = min(plan.rounds, FIRST_SECONDS_ROUNDS)
        note = (
            f"The {FIRST_SECONDS:.0f} s that follow the start of the process, which is what a test"
            " suite sees: a rate is what was done in them by their length, or by the time the"
            " broker was up; percentiles are of the requests that were answered in them."
        )
        rows = bench.first_seconds(ROWS, root / "first", names)
        sections.append(Section(f"The first {FIRST_SECONDS:.0f} seconds", note, rows))
    if names and (sizes := [size for size in SIZES if plan.has(size.key)]):
        note = (
            "Each broker is started for this alone and measured once; another process sends it one"
            " tiny record after another meanwhile, whose longest wait is how long it was held."
        )
        rows = measure_series(sizes, lambda: fresh_pair(root / "sizes", names), say)
        sections.append(Section("Sizes", note, rows))
    return sections


def _warm(
    plan: BenchPlan, bench: Bench, brokers: Sequence[BenchBroker], root: Path
) -> list[Section]:
    """Return the sections of the warm measurements: raw sockets, transactions, stock clients.

    A section without a chosen row is left out.
    """
    sections = []
    if rows := [row for row in ROWS if plan.has(row.key)]:
        floors = [Floor(root / "floor")] if plan.floor else []
        note = (
            f"Each broker was warmed with a row's own work until its rate stopped rising (at most"
            f" {plan.warm_max_s:.0f} s), then {plan.rounds} rounds of {plan.seconds:g} s."
        )
        figures = bench.warm(rows, [*brokers, *floors])
        sections.append(Section("Warm, raw sockets", note, figures))
    if rows := [row for row in TRANSACTION_ROWS if plan.has(row.key)]:
        note = (
            "Produce and EndTxn as a client of transaction version 2 sends them; all producers"
            " write to the same partitions. What one is told to try again it tries 5 ms later."
        )
        sections.append(Section("Transactions", note, bench.warm(rows, brokers)))
    if clients := [client for client in STOCK if plan.has(client.key)]:
        bench.rounds = min(plan.rounds, STOCK_ROUNDS)
        note = "Default settings, a topic of one partition; the first round is not counted."
        sections.append(Section("Warm, stock clients", note, bench.stock(clients, brokers)))
    return sections


if __name__ == "__main__":
    main()
