"""`python -m kwire.conformance.bench.spark`: measures Spark's Kafka source and sink.

One Spark session uses both brokers in turns (A B, B A, ...). The records to read are written once
to each broker, in the same batches; each turn of the sink writes to a new topic. Each turn is
checked: Spark counts the rows and the bytes of their values, and the broker returns the end offsets
of a new topic.
"""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rich.console import Console

from kwire.conformance import spark as judge
from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.bench import frames, load, machine, report
from kwire.conformance.bench.brokers import Apache, BenchBroker, BrokerFailed, Kwire, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import SETTLE_S, Series, new_topic, touch_memory
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure
from kwire.conformance.java import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADING = "Spark"
RESULTS = Path(__file__).parent.with_name("RESULTS.md")
RECORDS = 10_000_000
PARTITIONS = 8
VALUE_BYTES = 100
BATCH_RECORDS = 125
"""About 13 kB, a little less than Java's producer puts into a batch by default."""

UNIT = PARTITIONS * BATCH_RECORDS
"""Records are a multiple of it, so that all partitions have the same number."""

ROWS = Figure("rows", "rows/s", target=1.0)
SETTINGS = {"spark.driver.memory": "2g"}
STREAM_WAIT_S = 1800
ADMIN_WAIT_S = 30
TOUCH_BYTES_A_RECORD = 600
"""Memory on both brokers for the records to read and those of a turn, with a reserve."""
FILE_COLUMNS = 190
FAILURES = (JavaMissing, ApacheKafkaError, BrokerFailed, RequestFailed)


@dataclass
class SparkStage:
    """What a turn works with; `topic` has the records to read."""

    spark: SparkSession
    broker: BenchBroker
    topic: str
    records: int
    scratch: Path

    def expect(self, what: str, rows: int) -> None:
        """Raise RequestFailed unless `rows` is the number of records in the topic."""
        if rows != self.records:
            raise RequestFailed(f"{self.broker.name}: {what} {rows} rows, not {self.records}")

    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap}


class SparkWork(ABC):
    """One kind of work with all records."""

    key: str
    title: str

    @abstractmethod
    def turn(self, stage: SparkStage) -> float:
        """Do the work once; the seconds that it took."""


class BatchRead(SparkWork):
    """Reads all columns of all rows in a batch query, and aggregates them."""

    key, title = "spark-batch-read", "batch read"

    def turn(self, stage: SparkStage) -> float:
        """Return the seconds of a batch query that reads the topic; raise if rows are missing."""
        from pyspark.sql import functions as f

        reader = stage.spark.read.format("kafka").options(**stage.options())
        frame = reader.option("subscribe", stage.topic).load()
        sums = frame.agg(f.count("*"), f.sum(f.length("value")), f.max("offset"))
        start = time.monotonic()
        ((rows, size_bytes, last),) = sums.collect()
        seconds = time.monotonic() - start
        stage.expect("read", rows)
        if (size_bytes, last) != (rows * VALUE_BYTES, rows // PARTITIONS - 1):
            raise RequestFailed(f"{stage.broker.name}: {size_bytes} B of values, to offset {last}")
        return seconds


class StreamRead(SparkWork):
    """Reads with the trigger availableNow into the noop sink, from the query's start to its end."""

    key, title = "spark-stream-read", "streaming read (availableNow, noop sink)"

    def turn(self, stage: SparkStage) -> float:
        """Return the seconds of a streaming query that reads the topic once to its end."""
        reader = stage.spark.readStream.format("kafka").options(**stage.options())
        frame = reader.options(subscribe=stage.topic, startingOffsets="earliest").load()
        with tempfile.TemporaryDirectory(dir=stage.scratch) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            start = time.monotonic()
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(STREAM_WAIT_S):
                query.stop()
                raise RequestFailed(f"{stage.broker.name}: no end within {STREAM_WAIT_S} s")
            seconds = time.monotonic() - start
        stage.expect("streamed", sum(step.numInputRows for step in query.recentProgress))
        return seconds


class BatchWrite(SparkWork):
    """Writes rows that Spark generates to a new topic."""

    key, title = "spark-batch-write", "batch write"

    def turn(self, stage: SparkStage) -> float:
        """Return the seconds of a batch query that writes records to a new topic.

        The topic is deleted, and SETTLE_S seconds pass, so that the next turn is not disturbed.
        """
        topic = new_topic()
        stage.broker.create_topic(topic, PARTITIONS)
        writer = _generate_records(stage.spark, stage.records).write.format("kafka")
        writer = writer.options(**stage.options()).option("topic", topic)
        start = time.monotonic()
        writer.save()
        seconds = time.monotonic() - start
        stage.expect("wrote", _end(stage.broker, topic))
        stage.broker.delete_topic(topic)
        time.sleep(SETTLE_S)
        return seconds


WORKS: tuple[SparkWork, ...] = (BatchRead(), StreamRead(), BatchWrite())


def _generate_records(spark: SparkSession, records: int) -> DataFrame:
    """Different values of 100 bytes, without keys."""
    return spark.range(records).selectExpr(f"lpad(cast(id as string), {VALUE_BYTES}, 'x') as value")


def _end(broker: BenchBroker, topic: str) -> int:
    """Return the sum of a topic's end offsets."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    requests = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}
    futures = admin.list_offsets(requests)
    return sum(future.result(ADMIN_WAIT_S).offset for future in futures.values())


def fill(broker: BenchBroker, topic: str, records: int) -> None:
    """Write the records to read, the same to every broker."""
    broker.create_topic(topic, PARTITIONS)
    batch = frames.batch(BATCH_RECORDS, VALUE_BYTES)
    for index in range(PARTITIONS):
        load.fill(broker.address, topic, batch, records // UNIT, BATCH_RECORDS, index)


@dataclass
class SparkBench:
    """Measures kinds of work on some brokers; calls `say` with the progress."""

    spark: SparkSession
    records: int
    rounds: int
    scratch: Path
    say: Callable[[str], None] = field(default=print)

    def measure(
        self, brokers: Sequence[BenchBroker], works: Sequence[SparkWork] = WORKS
    ) -> list[Series]:
        """Fill a topic on each broker, and return the series of each kind of work."""
        topic = new_topic()
        for broker in brokers:
            self.say(f"{broker.name}: {self.records:,} records to read")
            fill(broker, topic, self.records)
        stages = [
            SparkStage(self.spark, broker, topic, self.records, self.scratch) for broker in brokers
        ]
        return [self._rounds(work, stages) for work in works]

    def _rounds(self, work: SparkWork, stages: Sequence[SparkStage]) -> Series:
        """Measure one kind of work, after one round of warm-up of Spark and the brokers."""
        series = Series(work.key, work.title, ROWS, ROWS.target)
        for number in range(self.rounds + 1):
            for stage in stages if number % 2 == 0 else reversed(stages):
                seconds = work.turn(stage)
                rate = self.records / seconds
                self.say(f"{work.title}, round {number}: {stage.broker.name} {rate:,.0f} rows/s")
                if number:
                    series.add(stage.broker.name, rate)
        return series


def section(records: int, rounds: int, cores: int, series: list[Series]) -> Section:
    """Return the section of the report, with a note on how it was measured."""
    version = judge.installed_version()
    note = (
        f"{records:,} records of {VALUE_BYTES} B in {PARTITIONS} partitions, {rounds} rounds after"
        f" one to warm up; Spark {version}, one session of {cores} cores for both brokers,"
        " which run beside it. `python -m kwire.conformance.bench.spark` repeats it."
    )
    return Section(HEADING, note, series)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", default=RECORDS, show_default=True, help=f"A multiple of {UNIT}.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each broker and work.")
@click.option(
    "--only", multiple=True, type=click.Choice([w.key for w in WORKS]), help="Only this work."
)
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
@click.option("--cores", default=2, show_default=True, help="Spark's cores on this machine.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the brokers' data. [default: a temporary directory]",
)
def main(
    records: int,
    rounds: int,
    only: tuple[str, ...],
    only_kwire: bool,
    cores: int,
    output: Path | None,
    directory: Path | None,
) -> None:
    """Measure Spark on kwire and on Apache Kafka, in turns."""
    if records < UNIT or records % UNIT or rounds < 1:
        raise click.UsageError(f"--records must be a multiple of {UNIT}, and --rounds at least 1")
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    works = [work for work in WORKS if not only or work.key in only]
    touch_memory(min(machine.free_memory_bytes() // 2, TOUCH_BYTES_A_RECORD * records))
    with tempfile.TemporaryDirectory(prefix="kwire-spark-", dir=directory) as folder:
        root = Path(folder)
        brokers: list[BenchBroker] = [Kwire(root / "kwire")]
        if not only_kwire:
            brokers.append(Apache(root / "apache"))
        try:
            with (
                running(*brokers),
                judge.session(root / "spark.log", SETTINGS, f"local[{cores}]") as spark,
            ):
                bench = SparkBench(spark, records, rounds, root, console.print)
                new_section = section(records, rounds, cores, bench.measure(brokers, works))
        except FAILURES as failure:
            raise click.ClickException(str(failure)) from failure
    report.print_section(console, new_section, Apache.name)
    if output is None and records == RECORDS and not (only or only_kwire):
        output = RESULTS
    if output is not None:
        report.update_report(console, output, new_section, Apache.name)
