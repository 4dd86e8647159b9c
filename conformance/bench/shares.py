"""`python -m kwire.conformance.bench.shares`: measures the rate of records to share groups.

The members are Java's share consumers in one process (Apache Kafka's ShareConsumerPerformance), the
same program for both brokers with its default settings. Each record is acquired, delivered and
accepted. Since joining waits for heartbeats, the rate counts from the first report, a tenth of a
second after the first record, to the end.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from rich.console import Console

from kwire.conformance import apache_kafka
from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Apache, BenchBroker, Kwire, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import Series, new_topic
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure

HEADING = "Share groups"
RESULTS = Path(__file__).with_name("RESULTS.md")
FILE_COLUMNS = 190
PROGRAM = "org.apache.kafka.tools.ShareConsumerPerformance"
MEMBERS = (1, 10, 50)
RECORDS, VALUE_BYTES, PARTITIONS = 500_000, 100, 6
REPORT_MS, TIMEOUT_S = 100, 300.0
HEAP = ("-Xmx1g",)
FIGURE = Figure("delivered and accepted", "records/s", target=1.0)
SETTINGS = {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "0"}

_LINE = re.compile(
    r"(?P<start>[\d: -]+), (?P<end>[\d: -]+), [\d.]+, [\d.]+, [\d.]+, (?P<count>\d+), \d+"
    r"(?P<of_one> for share consumer \d+)?$"
)


class ShareReport(NamedTuple):
    """The number of records up to a moment; of one member, or of all at the end."""

    until: datetime
    records: int
    of_one: bool


def reports_in(text: str) -> list[ShareReport]:
    """Return the reports that the program has printed."""
    matches = [match for line in text.splitlines() if (match := _LINE.match(line.strip()))]
    return [
        ShareReport(
            datetime.strptime(match["end"], "%Y-%m-%d %H:%M:%S:%f"),
            int(match["count"]),
            match["of_one"] is not None,
        )
        for match in matches
    ]


def rate_of(text: str) -> float:
    """Return the records per second after the first report.

    Raises RequestFailed without a final report.
    """
    reports = reports_in(text)
    parts = [report for report in reports if report.of_one]
    if len(parts) == len(reports) or not parts:
        raise RequestFailed(f"{PROGRAM} printed no figures:\n{text[-2000:]}")
    first, whole = min(parts), reports[-1]
    return (whole.records - first.records) / (whole.until - first.until).total_seconds()


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Write the records in batches of up to 16 kB, as Java's producers do."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 16_384,
            "linger.ms": 50,
            "queue.buffering.max.messages": records,
        }
    )
    value = bytes(VALUE_BYTES)
    for number in range(records):
        producer.produce(topic, value, partition=number // 150 % PARTITIONS)
    if producer.flush(TIMEOUT_S):
        raise RequestFailed("some records were not acknowledged")


def configure(bootstrap: str, group: str) -> None:
    """Set the configs of the share group, and wait until the broker has confirmed them."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in SETTINGS.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def measure(broker: BenchBroker, members: int, records: int) -> float:
    """Return the records per second on a new topic and group."""
    topic = new_topic()
    broker.create_topic(topic, PARTITIONS)
    fill(broker.bootstrap, topic, records)
    configure(broker.bootstrap, topic)
    given = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", topic]
    given += ["--num-records", str(records), "--threads", str(members)]
    given += ["--timeout", str(int(TIMEOUT_S * 1000)), "--show-detailed-stats"]
    given += ["--reporting-interval", str(REPORT_MS)]
    done = subprocess.run(
        apache_kafka.command(PROGRAM, given, jvm=HEAP),
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
    )
    broker.delete_topic(topic)
    if done.returncode:
        raise RequestFailed(f"{PROGRAM}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return rate_of(done.stdout)


def measure_series(members: int, brokers: list[BenchBroker], rounds: int, records: int) -> Series:
    """Return the series of a number of members; the brokers take turns (A B, B A, ...)."""
    title = f"{members} member{'s' if members > 1 else ''}, {PARTITIONS} partitions"
    series = Series(f"share-{members}", title, FIGURE, FIGURE.target)
    for number in range(rounds):
        for broker in brokers if number % 2 else brokers[::-1]:
            series.add(broker.name, measure(broker, members, records))
    return series


def section(rounds: int, records: int, series: list[Series]) -> Section:
    """Return the section of the report, with a note on how it was measured."""
    note = (
        f"Share groups (KIP-932): {records:,} records of {VALUE_BYTES} B for members that are"
        " Java's share consumers in one process (Apache Kafka's ShareConsumerPerformance), on the"
        f" broker's own cores. {rounds} rounds. `python -m kwire.conformance.bench.shares`"
        " repeats it."
    )
    return Section(HEADING, note, series)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=3, show_default=True, help="Turns of each broker in each row.")
@click.option("--records", default=RECORDS, show_default=True, help="Records of a turn.")
@click.option("--only", multiple=True, type=int, help="Only the rows with that many members.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
def main(rounds: int, records: int, only: tuple[int, ...], output: Path | None) -> None:
    """Measure share groups on kwire and Apache Kafka, in turns."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="kwire-shares-") as folder:
        brokers: list[BenchBroker] = [Kwire(Path(folder, "kwire")), Apache(Path(folder, "apache"))]
        all_series = []
        with running(*brokers):
            for members in only or MEMBERS:
                series = measure_series(members, brokers, rounds, records)
                all_series.append(series)
                medians = (f"{k} {median(v):,.0f}" for k, v in series.values.items())
                console.print(f"{series.title}: {', '.join(medians)}")
    new_section = section(rounds, records, all_series)
    report.print_section(console, new_section, Apache.name)
    output = output or (None if only else RESULTS)
    if output is not None:
        report.update_report(console, output, new_section, Apache.name)


if __name__ == "__main__":
    main()
