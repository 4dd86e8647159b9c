"""`python -m kwire.conformance.bench.spark.latency`: how soon a query of Spark passes a record on.

A query copies records from one topic to another, each of one partition.  A producer writes records
at a steady pace, and a consumer of the other topic notes when each arrives.  The kinds of trigger
and the brokers take turns, in one Spark session.  For comparison, a turn without a query has the
consumer read the first topic.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Partition
from rich.console import Console

from kwire.conformance import spark as judge
from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.bench import report
from kwire.conformance.bench.brokers import Apache, BenchBroker, BrokerFailed, Kwire, running
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import SETTLE_S, Series, new_topic
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure, Figures
from kwire.conformance.bench.spark.throughput import FILE_COLUMNS, RESULTS
from kwire.conformance.java import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADING = "Latency of Spark's triggers"
RECORDS = 1000
WARM_S = 5.0
ROUNDS = 3
PAUSE_S = 0.01
"""Between two records, so that none waits for the one before it in a client's batch."""

ARRIVAL_WAIT_S = 600.0
POLL_S = 0.1
NS_A_MS = 1e6
SETTINGS = {"spark.driver.memory": "1g"}
REAL_TIME_SINCE = (4, 1)
"""The first version of Spark with Real-time Mode."""

P50 = Figure("p50", "ms", more_is_better=False)
P99 = Figure("p99", "ms", more_is_better=False)
FAILURES = (JavaMissing, ApacheKafkaError, BrokerFailed, RequestFailed)


@dataclass(frozen=True)
class Trigger:
    """A way to run the query; without a setting, there is no query."""

    key: str
    title: str
    setting: Mapping[str, str] | None = None
    output_mode: str = "append"


DIRECT = Trigger("none", "no query: the consumer reads the first topic")
REAL_TIME = Trigger("real-time", "Real-time Mode (5 minutes)", {"realTime": "5 minutes"}, "update")
MICRO_BATCHES = Trigger(
    "micro-batch", "micro-batches, each at once", {"processingTime": "0 seconds"}
)
TRIGGERS = (
    DIRECT,
    REAL_TIME,
    Trigger("real-time-5s", "Real-time Mode (5 seconds)", {"realTime": "5 seconds"}, "update"),
    Trigger("continuous", "continuous trigger (5 seconds)", {"continuous": "5 seconds"}),
    MICRO_BATCHES,
)
"""The duration in brackets is how often Spark notes its position; 5 seconds is the least that
Real-time Mode takes, and 5 minutes is its default in Scala."""


class TimedConsumer:
    """A consumer in a thread, which notes when each numbered record arrives for the first time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False}
        )
        self._consumer.assign([Partition(topic, 0, OFFSET_BEGINNING)])
        self._at_ns: dict[int, int] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: KafkaError | None = None
        self._thread = threading.Thread(target=self._consume)

    def __enter__(self) -> TimedConsumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._consumer.close()

    def _consume(self) -> None:
        while not self._is_over and self._failure is None:
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            now = time.monotonic_ns()
            with self._changed:
                if error := message.error():
                    self._failure = error
                else:
                    self._at_ns.setdefault(int(message.value() or b""), now)
                self._changed.notify()

    def wait_for(self, numbers: range, still: Callable[[], None]) -> list[int]:
        """The times at which these records arrived, once all have; `still` raises if none will.

        Raises RequestFailed if the consumer fails or they take too long.
        """
        deadline = time.monotonic() + ARRIVAL_WAIT_S
        with self._changed:
            while not all(number in self._at_ns for number in numbers):
                if self._failure is not None:
                    raise RequestFailed(f"the consumer failed: {self._failure}")
                if time.monotonic() > deadline:
                    missing = sum(number not in self._at_ns for number in numbers)
                    raise RequestFailed(f"{missing} records did not arrive in {ARRIVAL_WAIT_S} s")
                still()
                self._changed.wait(POLL_S)
            return [self._at_ns[number] for number in numbers]


class Sender:
    """A producer of numbered records, one each PAUSE_S seconds."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._topic = topic
        self.sent_ns: list[int] = []

    def send(self, count: int) -> range:
        """Send so many records at the pace; their numbers.  A late one does not delay the next."""
        first = len(self.sent_ns)
        start = time.monotonic()
        for index in range(count):
            time.sleep(max(0.0, start + index * PAUSE_S - time.monotonic()))
            self.sent_ns.append(time.monotonic_ns())
            number = str(first + index)
            self._producer.produce(self._topic, number, partition=0, on_delivery=_acknowledged)
            self._producer.poll(0)
        return range(first, first + count)

    def close(self) -> None:
        self._producer.flush(ARRIVAL_WAIT_S)


def _acknowledged(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise RequestFailed(f"a record was not acknowledged: {error}")


@contextmanager
def _copying(
    spark: SparkSession, trigger: Trigger, broker: BenchBroker, source: str, sink: str, root: Path
) -> Iterator[Callable[[], None]]:
    """A query of this trigger from a topic to the other; gives what raises if it has ended."""
    if trigger.setting is None:
        yield lambda: None
        return
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    reader = spark.readStream.format("kafka").options(**options)
    frame = reader.options(subscribe=source, startingOffsets="earliest").load()
    writer = frame.selectExpr("key", "value").writeStream.format("kafka").options(**options)
    with tempfile.TemporaryDirectory(dir=root) as checkpoint:
        writer = writer.options(topic=sink, checkpointLocation=checkpoint)
        query = writer.outputMode(trigger.output_mode).trigger(**trigger.setting).start()

        def still() -> None:
            if not query.isActive:
                raise RequestFailed(f"{broker.name}: the query has ended: {query.exception()}")

        try:
            yield still
        finally:
            query.stop()


@dataclass
class LatencyBench:
    """Measures triggers on some brokers; calls `say` with the progress."""

    spark: SparkSession
    records: int
    warm_s: float
    rounds: int
    scratch: Path
    say: Callable[[str], None] = field(default=print)

    def measure(self, brokers: Sequence[BenchBroker], triggers: Sequence[Trigger]) -> list[Series]:
        """The series of p50 and p99 of each trigger, after a round that warms Spark up."""
        series = {
            trigger.key: [Series(trigger.key, trigger.title, figure, None) for figure in (P50, P99)]
            for trigger in triggers
        }
        for number in range(self.rounds + 1):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                for trigger in triggers if number % 2 == 0 else reversed(triggers):
                    figures = self.turn(broker, trigger)
                    measured = ", ".join(
                        f"{name} {value:.2f} ms" for name, value in figures.items()
                    )
                    self.say(f"{trigger.title}, round {number}: {broker.name} {measured}")
                    for each in series[trigger.key] if number else ():
                        each.add(broker.name, figures[each.figure.name])
        return [each for pair in series.values() for each in pair]

    def turn(self, broker: BenchBroker, trigger: Trigger) -> Figures:
        """Run the query once: its start, records to warm it up, and the records that count."""
        source, sink = new_topic(), new_topic()
        for topic in (source, sink):
            broker.create_topic(topic)
        sender = Sender(broker.bootstrap, source)
        read = source if trigger.setting is None else sink
        with (
            TimedConsumer(broker.bootstrap, read) as arrivals,
            _copying(self.spark, trigger, broker, source, sink, self.scratch) as still,
        ):
            arrivals.wait_for(sender.send(1), still)
            arrivals.wait_for(sender.send(int(self.warm_s / PAUSE_S)), still)
            numbers = sender.send(self.records)
            arrived_ns = arrivals.wait_for(numbers, still)
        sender.close()
        for topic in (source, sink):
            broker.delete_topic(topic)
        time.sleep(SETTLE_S)
        taken = [at - sender.sent_ns[n] for n, at in zip(numbers, arrived_ns, strict=True)]
        return percentiles_ms(taken)


def percentiles_ms(taken_ns: Sequence[int]) -> Figures:
    """The median and the 99th percentile of some times."""
    ordered = sorted(taken_ns)
    return {
        P50.name: median(ordered) / NS_A_MS,
        P99.name: ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / NS_A_MS,
    }


def against_micro_batches(series: Sequence[Series], broker: str) -> str:
    """A sentence on how many times as long micro-batches take as Real-time Mode; "" without both.

    Each ratio is the median of those of the rounds.
    """
    times = []
    for figure in (P50, P99):
        values = {each.row: each.values.get(broker, []) for each in series if each.figure == figure}
        pairs = zip(values.get(MICRO_BATCHES.key, ()), values.get(REAL_TIME.key, ()), strict=False)
        if ratios := [batch / real for batch, real in pairs]:
            times.append(f"{report.number(median(ratios))} times the {figure.name}")
    if not times:
        return ""
    return f" On {broker}, micro-batches take {' and '.join(times)} of {REAL_TIME.title}."


def section(bench: LatencyBench, cores: int, series: list[Series]) -> Section:
    """The section of the report, with a note on how it was measured."""
    note = (
        f"A query copies records from a topic to another, {1 / PAUSE_S:.0f} a second; the time is"
        f" from the producer to a consumer of the second topic. {bench.records:,} records a turn,"
        f" after {bench.warm_s:g} s of others. Measured rounds: {bench.rounds}, after one to warm"
        f" up. Spark {judge.installed_version()}, one session of {cores} cores, with brokers and"
        " clients beside it. In brackets is how often Spark notes its position; no turn has the end"
        " of 5 minutes. `python -m kwire.conformance.bench.spark.latency` repeats it."
    )
    return Section(HEADING, note + against_micro_batches(series, Kwire.name), series)


def has_real_time(version: str) -> bool:
    """Whether this version of Spark has Real-time Mode."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    return parts is not None and (int(parts[1]), int(parts[2])) >= REAL_TIME_SINCE


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", default=RECORDS, show_default=True, help="Records of a turn.")
@click.option("--warm", default=WARM_S, show_default=True, help="Seconds of records before them.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="Turns of each trigger.")
@click.option(
    "--only", multiple=True, type=click.Choice([t.key for t in TRIGGERS]), help="Only this trigger."
)
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
@click.option("--cores", default=2, show_default=True, help="Spark's cores on this machine.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
def main(
    records: int,
    warm: float,
    rounds: int,
    only: tuple[str, ...],
    only_kwire: bool,
    cores: int,
    output: Path | None,
) -> None:
    """Measure how soon Spark's queries pass records on, on kwire and on Apache Kafka, in turns."""
    if records < 1 or warm < 0 or rounds < 1:
        raise click.UsageError("--records and --rounds must be at least 1, and --warm 0")
    if not has_real_time(judge.installed_version()):
        needed = ".".join(map(str, REAL_TIME_SINCE))
        raise click.ClickException(
            f"Real-time Mode needs Spark {needed} or newer, this is {judge.installed_version()}"
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="kwire-spark-") as folder:
        root = Path(folder)
        brokers: list[BenchBroker] = [Kwire(root / "kwire")]
        if not only_kwire:
            brokers.append(Apache(root / "apache"))
        try:
            with (
                running(*brokers),
                judge.session(root / "spark.log", SETTINGS, f"local[{cores}]") as spark,
            ):
                bench = LatencyBench(spark, records, warm, rounds, root, console.print)
                triggers = [trigger for trigger in TRIGGERS if not only or trigger.key in only]
                new_section = section(bench, cores, bench.measure(brokers, triggers))
        except FAILURES as failure:
            raise click.ClickException(str(failure)) from failure
    report.print_section(console, new_section, Apache.name)
    is_whole = (records, warm, rounds) == (RECORDS, WARM_S, ROUNDS) and not (only or only_kwire)
    output = output or (RESULTS if is_whole else None)
    if output is not None:
        report.update_report(console, output, new_section, Apache.name)


if __name__ == "__main__":
    main()
