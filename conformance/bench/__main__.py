"""`python -m kwire.conformance.bench`: measures kwire and Apache Kafka with the same load."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
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
from kwire.conformance.bench.blocks import file as kept
from kwire.conformance.bench.blocks import sections
from kwire.conformance.bench.blocks.file import BlockFile
from kwire.conformance.bench.blocks.sections import SECTIONS, BenchPlan, MeasuredBrokers
from kwire.conformance.bench.brokers import Apache, BenchBroker, BrokerFailed, External, Kwire
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import touch_memory
from kwire.conformance.bench.plots import ratios
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import ROWS
from kwire.conformance.bench.spark import latency, throughput
from kwire.conformance.bench.transactions import TRANSACTION_ROWS
from kwire.conformance.java import JavaMissing
from kwire.conformance.suite import __main__ as suite
from kwire.conformance.suite import fresh

PARTS = tuple(part for section in SECTIONS for part in section.parts)
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
BLOCKS = Path("artifacts", "bench.jsonl")
PARTIAL = Path("artifacts", "bench.md")
FILE_COLUMNS = 190  # the width of a table in a file or pipe

HOW = """All figures are of the same sources and machine. The brokers take turns at the same work
(A B, B A, ...), each turn on a new topic of one replica, and each reply is checked. A figure is the
median of the rounds, with the smallest and the largest; "times better" is made round by round,
above 1 where kwire is the better one. The floor is a bare server in Python that checks a CRC and
appends, nothing else (`floor.py`). The brokers run with their defaults (Apache Kafka with the JVM
options of its own start script), unpinned, beside the load generator on the same cores. `make
bench` repeats it."""


FAILURES = (JavaMissing, ApacheKafkaError, BrokerFailed, RequestFailed)


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
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=BLOCKS,
    show_default=True,
    metavar="FILE",
    help="File with a line for each measured row.  Rows that it has of these sources, this machine"
    " and these options are not measured again.",
)
@click.option("--fresh", is_flag=True, help="Measure the rows again that the file has.")
@click.option("--page", is_flag=True, help="Measure nothing: write what the file has so far.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The file of the report. [default: RESULTS.md beside the code, for a whole run;"
    f" {PARTIAL}, for --page of an incomplete one]",
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
    results: Path,
    fresh: bool,
    page: bool,
    output: Path | None,
    directory: Path | None,
) -> None:
    """Measure kwire and Apache Kafka side by side; print tables and write the report.

    Each row is kept as soon as it is measured.  After an interruption the same command goes on
    with the rows that are missing.
    """
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
        contest = MeasuredBrokers(brokers, root)
        keys = sections.keys_of(plan, contest)
        options = {
            "seconds": seconds,
            "rounds": rounds,
            "warm": warm,
            "floor": floor,
            "brokers": [broker.name for broker in brokers],
            "bootstrap": bootstrap,
        }
        file = kept.opened(results, options, keys, fresh=fresh)
        missing = [key for key in keys if key not in file]
        if missing and not page:
            with console.status("memory") as status:
                if not quick:
                    touch_memory(min(machine.free_memory_bytes() // 2, TOUCH_BYTES_MAX))
                try:
                    sections.measure(plan, contest, file, status.update)
                except FAILURES as failure:
                    raise click.ClickException(str(failure)) from failure
                finally:
                    kept.say_progress(file, keys)
        found = sections.sections(plan, contest, file)
    for section in found:
        report.print_section(console, section, Apache.name)
    missing = [key for key in keys if key not in file]
    if output is None and not (only or quick or only_kwire or bootstrap):
        output = PARTIAL if missing else RESULTS
    if output is not None:
        _write(found, file, keys, output)
        console.print(f"written: {output}")


def _write(found: Sequence[Section], file: BlockFile, keys: Sequence[str], output: Path) -> None:
    """Write the report and its plot; sections of other programs are kept."""
    how = HOW
    if missing := [key for key in keys if key not in file]:
        how += f"\n\nNot measured yet: {', '.join(missing)}."
    facts = [*machine.facts(), *file.facts(keys)]
    text = report.markdown(found, facts, how, Apache.name)
    before = output.read_text() if output.exists() else ""
    for part in OTHER_PROGRAMS:
        text = report.keep_section(text, before, part.HEADING)
    if plotted := ratios.of_sections(found, Apache.name):
        plot = output.with_name(f"{output.stem.lower()}.svg")
        ratios.draw(plotted, plot, Apache.name)
        text = report.show_plot(text, plot.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
