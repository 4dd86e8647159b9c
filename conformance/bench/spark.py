"""`python -m kwire.conformance.bench.spark`: Spark's Kafka source and sink on both brokers.

One Spark session serves both brokers in turns (A B, B A, ...).  What is read was written once to
each of them, the same batches; every turn of the sink writes to a new topic.  Each turn is checked:
Spark counts the rows and the bytes of their values, and the broker says where a new topic ends.
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
from kwire.conformance.bench.brokers import Apache, Broker, BrokerFailed, Kwire, running
from kwire.conformance.bench.frames import BrokerRefused
from kwire.conformance.bench.measure import SETTLE_S, Series, new_topic, touch_memory
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure
from kwire.conformance.java import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADING = "Spark"
RESULTS = Path(__file__).with_name("RESULTS.md")
RECORDS = 10_000_000
PARTITIONS = 8
VALUE_BYTES = 100
BATCH_RECORDS = 125
"""Some 13 kB, little less than Java's producer puts in a batch by default."""

UNIT = PARTITIONS * BATCH_RECORDS
"""Records are written in multiples of it: all partitions have as many."""

ROWS = Figure("rows", "rows/s", target=1.0)
SETTINGS = {"spark.driver.memory": "2g"}
STREAM_WAIT_S = 1800
ADMIN_WAIT_S = 30
TOUCH_BYTES_A_RECORD = 600
"""On both brokers what is read, and what a turn writes, with room to spare."""
FILE_COLUMNS = 190
FAILURES = (JavaMissing, ApacheKafkaError, BrokerFailed, BrokerRefused)


@dataclass
class Stage:
    """Where a turn happens. `topic` has the records that are read."""

    spark: SparkSession
    broker: Broker
    topic: str
    records: int
    scratch: Path

    def expect(self, what: str, rows: int) -> None:
        """Raise BrokerRefused unless all of them came."""
        if rows != self.records:
            raise BrokerRefused(f"{self.broker.name}: {what} {rows} rows, not {self.records}")

    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap}


class Work(ABC):
    """One kind of work with all the records."""

    key: str
    title: str

    @abstractmethod
    def turn(self, stage: Stage) -> float:
        """Do it once; the seconds it took."""


class BatchRead(Work):
    """All columns of all rows are made, and sums taken of them."""

    key, title = "spark-batch-read", "batch read"

    def turn(self, stage: Stage) -> float:
        from pyspark.sql import functions as f

        reader = stage.spark.read.format("kafka").options(**stage.options())
        frame = reader.option("subscribe", stage.topic).load()
        sums = frame.agg(f.count("*"), f.sum(f.length("value")), f.max("offset"))
        began = time.monotonic()
        ((rows, size_bytes, last),) = sums.collect()
        seconds = time.monotonic() - began
        stage.expect("read", rows)
        if (size_bytes, last) != (rows * VALUE_BYTES, rows // PARTITIONS - 1):
            raise BrokerRefused(f"{stage.broker.name}: {size_bytes} B of values, to offset {last}")
        return seconds


class StreamRead(Work):
    """Trigger availableNow into the noop sink, from the query's start to its end."""

    key, title = "spark-stream-read", "streaming read (availableNow, noop sink)"

    def turn(self, stage: Stage) -> float:
        reader = stage.spark.readStream.format("kafka").options(**stage.options())
        frame = reader.options(subscribe=stage.topic, startingOffsets="earliest").load()
        with tempfile.TemporaryDirectory(dir=stage.scratch) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            began = time.monotonic()
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(STREAM_WAIT_S):
                query.stop()
                raise BrokerRefused(f"{stage.broker.name}: no end within {STREAM_WAIT_S} s")
            seconds = time.monotonic() - began
        stage.expect("streamed", sum(step.numInputRows for step in query.recentProgress))
        return seconds


class BatchWrite(Work):
    """Rows that Spark makes itself, into a new topic."""

    key, title = "spark-batch-write", "batch write"

    def turn(self, stage: Stage) -> float:
        topic = new_topic()
        stage.broker.create_topic(topic, PARTITIONS)
        writer = _made(stage.spark, stage.records).write.format("kafka")
        writer = writer.options(**stage.options()).option("topic", topic)
        began = time.monotonic()
        writer.save()
        seconds = time.monotonic() - began
        stage.expect("wrote", _end(stage.broker, topic))
        stage.broker.delete_topic(topic)
        time.sleep(SETTLE_S)
        return seconds


WORKS: tuple[Work, ...] = (BatchRead(), StreamRead(), BatchWrite())


def _made(spark: SparkSession, records: int) -> DataFrame:
    """So many values of 100 bytes, no two alike, and no keys."""
    return spark.range(records).selectExpr(f"lpad(cast(id as string), {VALUE_BYTES}, 'x') as value")


def _end(broker: Broker, topic: str) -> int:
    """The sum of a topic's end offsets."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}
    found = admin.list_offsets(asked)
    return sum(each.result(ADMIN_WAIT_S).offset for each in found.values())


def fill(broker: Broker, topic: str, records: int) -> None:
    """Write the records that are read, the same to every broker."""
    broker.create_topic(topic, PARTITIONS)
    batch = frames.batch(BATCH_RECORDS, VALUE_BYTES)
    for index in range(PARTITIONS):
        load.fill(broker.address, topic, batch, records // UNIT, BATCH_RECORDS, index)


@dataclass
class Bench:
    """All kinds of work on some brokers; `say` is told what goes on."""

    spark: SparkSession
    records: int
    rounds: int
    scratch: Path
    say: Callable[[str], None] = field(default=print)

    def measure(self, brokers: Sequence[Broker], works: Sequence[Work] = WORKS) -> list[Series]:
        topic = new_topic()
        for broker in brokers:
            self.say(f"{broker.name}: {self.records:,} records to read")
            fill(broker, topic, self.records)
        stages = [Stage(self.spark, each, topic, self.records, self.scratch) for each in brokers]
        return [self._rounds(work, stages) for work in works]

    def _rounds(self, work: Work, stages: Sequence[Stage]) -> Series:
        """One round more than counts, to warm Spark and the brokers."""
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
    note = (
        f"{records:,} records of {VALUE_BYTES} B in {PARTITIONS} partitions, {rounds} rounds after"
        f" one to warm up; Spark {judge.VERSION}, one session of {cores} cores for both brokers,"
        " which run beside it. `python -m kwire.conformance.bench.spark` repeats it."
    )
    return Section(HEADING, note, series)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", default=RECORDS, show_default=True, help=f"A multiple of {UNIT}.")
@click.option("--rounds", default=5, show_default=True, help="Turns a broker and kind of work.")
@click.option(
    "--only", multiple=True, type=click.Choice([w.key for w in WORKS]), help="Only this work."
)
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
@click.option("--cores", default=2, show_default=True, help="Of Spark, on this machine.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report whose section this is. [default: RESULTS.md beside the code, of a whole run]",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="For the brokers' data. [default: a temporary directory]",
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
        raise click.UsageError(f"records in multiples of {UNIT}, and a round at least")
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    works = [work for work in WORKS if not only or work.key in only]
    touch_memory(min(machine.free_memory_bytes() // 2, TOUCH_BYTES_A_RECORD * records))
    with tempfile.TemporaryDirectory(prefix="kwire-spark-", dir=directory) as folder:
        root = Path(folder)
        brokers: list[Broker] = [Kwire(root / "kwire")]
        if not only_kwire:
            brokers.append(Apache(root / "apache"))
        try:
            with (
                running(*brokers),
                judge.session(root / "spark.log", SETTINGS, f"local[{cores}]") as spark,
            ):
                bench = Bench(spark, records, rounds, root, console.print)
                made = section(records, rounds, cores, bench.measure(brokers, works))
        except FAILURES as failure:
            raise click.ClickException(str(failure)) from failure
    report.print_section(console, made, Apache.name)
    if output is None and records == RECORDS and not (only or only_kwire):
        output = RESULTS
    if output is not None:
        before = output.read_text() if output.exists() else ""
        output.write_text(report.put_section(before, made, Apache.name))
        console.print(f"written: {output}")


if __name__ == "__main__":
    main()
