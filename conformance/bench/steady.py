"""`python -m kwire.conformance.bench.steady`: measures a query beside a steady producer.

A producer writes a fixed number of records per second, and `kwire pipeline query` counts them in
windows. Each second it samples the memory of broker and driver, and the lag of the query. The
results are figures, all samples as CSV, and a plot. Linux only, because memory is read from /proc.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import click
from confluent_kafka import KafkaError, Message, Producer
from rich.console import Console
from rich.table import Table

from kwire.conformance.bench.brokers import Apache, BenchBroker, BrokerFailed, Kwire, running
from kwire.testing.hosting.ending import end

HEADING = "An hour at a steady rate"
"""The heading of the report's section on such a run, which is written by hand."""
TOPIC = "steady"
SLICE_S = 0.05
KEYS = 100
VALUE_BYTES = 100
EVERY_S = 1.0
FIRST_STEP_S = 600.0
"""Limit for the query to run its first micro-batch."""
LAST_STEP_S = 300.0
"""Limit for the query to process all records after the producer has ended."""
STOP_S = 60.0
GONE = FileNotFoundError, ProcessLookupError
"""Errors of reading about a process that has ended: before its file is opened, and after."""
SQL = f"""SELECT window.start AS start, key, count(*) AS records FROM {TOPIC}
    GROUP BY window(at, '10 seconds'), key"""


@dataclass(frozen=True)
class SteadySample:
    """The values of one moment; `lag` is acknowledged records minus those of finished
    micro-batches."""

    at_s: float
    acknowledged: int
    processed: int
    lag: int
    broker_mb: float
    driver_jvm_mb: float
    driver_python_mb: float


class SteadyRunFailed(RuntimeError):
    """The producer or the query ended too early."""


def produce(bootstrap: str, per_s: int, seconds: float, acknowledged: Synchronized[int]) -> None:
    """Write at a steady pace; late slices are made up for. Runs in a process of its own."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise SteadyRunFailed(f"a record was not acknowledged: {error}")
        acknowledged.value += 1

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    start = time.monotonic()
    sent = 0
    for number in range(1, max(1, round(seconds / SLICE_S)) + 1):
        head = f'{{"at":"{datetime.now(UTC).isoformat(timespec="milliseconds")}","key":'
        due = -int(-number * SLICE_S * per_s // 1)
        for key in range(sent, due):
            value = f'{head}{key % KEYS},"pad":"'.ljust(VALUE_BYTES - 2, "x") + '"}'
            producer.produce(TOPIC, value, on_delivery=delivered)
        sent = due
        while (left := start + number * SLICE_S - time.monotonic()) > 0:
            producer.poll(left)
        producer.poll(0)
    if left_over := producer.flush(STOP_S):
        raise SteadyRunFailed(f"{left_over} records were not acknowledged")


class ObservedQuery:
    """`kwire pipeline query` as a process, with the progress in its file of micro-batches."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """Prepare the command of the query; it writes its progress and its log into `folder`."""
        self.steps = folder / "steps.jsonl"
        self.log = folder / "query.log"
        self._command = [
            *(sys.executable, "-m", "kwire.cli", "pipeline", "query", SQL, "-b", bootstrap),
            *("--schema", "at TIMESTAMP, key INT", "--watermark", f"{TOPIC}.at='10 seconds'"),
            *("--to", f"{TOPIC}-counts", "--checkpoint", str(folder / "checkpoint")),
            *("--steps", str(self.steps), "--continuous", "--every", "2s", "--json"),
        ]
        self.durations_ms: list[int] = []
        self.processed = 0
        self._read = 0
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the process; at the end, stop it with SIGINT as Ctrl-C does."""
        with open(self.log, "wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._process = process
        try:
            yield
        finally:
            end(process, signal.SIGINT, STOP_S)

    def read_progress(self) -> None:
        """Read the new lines of the file of micro-batches. Raises SteadyRunFailed after its end."""
        if self._process is not None and self._process.poll() is not None:
            raise SteadyRunFailed(f"the query has ended:\n{self.log.read_text()[-2000:]}")
        if not self.steps.exists():
            return
        with open(self.steps, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                step = json.loads(line)
                self.processed += step["records"]
                self.durations_ms.append(step["duration_ms"])

    def memory_mb(self) -> tuple[float, float]:
        """Return memory of Spark's Java process, and of the Python process that drives it."""
        assert self._process is not None, "not running"
        java = [pid for pid in descendants(self._process.pid) if name_of(pid) == "java"]
        return sum(map(resident_mb, java)), resident_mb(self._process.pid)


def descendants(pid: int) -> list[int]:
    """Return all processes that a process has started, directly or not."""
    pids: list[int] = []
    with suppress(*GONE):  # the process has ended meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(*GONE):  # or the thread
                for child in map(int, (thread / "children").read_text().split()):
                    pids += [child, *descendants(child)]
    return pids


def name_of(pid: int) -> str:
    """Return the name of a process, or "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except GONE:
        return ""


def resident_mb(pid: int) -> float:
    """Return the resident memory in MB (10^6 bytes); 0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except GONE:
        return 0.0
    size = re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)
    return int(size[1]) * 1024 / 1e6 if size else 0.0


def sample_query(
    broker: BenchBroker, query: ObservedQuery, producer: multiprocessing.process.BaseProcess,
    acknowledged: Synchronized[int],
) -> Iterator[SteadySample]:  # fmt: skip
    """Yield a sample each second, until the query has processed all records of the ended
    producer."""
    start = time.monotonic()
    ended: float | None = None
    while True:
        query.read_progress()
        now = time.monotonic()
        if not producer.is_alive():
            if producer.exitcode:
                raise SteadyRunFailed(f"the producer ended with status {producer.exitcode}")
            ended = ended or now
        jvm_mb, python_mb = query.memory_mb()
        sample = SteadySample(
            round(now - start, 2),
            acknowledged.value,
            query.processed,
            acknowledged.value - query.processed,
            round(broker.rss_mb() or 0.0, 1),
            round(jvm_mb, 1),
            round(python_mb, 1),
        )
        yield sample
        if ended is not None and sample.lag <= 0:
            return
        if ended is not None and now - ended > LAST_STEP_S:
            raise SteadyRunFailed(
                f"the query still lags by {sample.lag:,} records after {LAST_STEP_S:.0f} s"
            )
        time.sleep(EVERY_S)


def run(
    broker: BenchBroker, per_s: int, seconds: float, folder: Path
) -> tuple[list[SteadySample], ObservedQuery]:
    """Warm up the query with one record, then do the steady run."""
    broker.create_topic(TOPIC, partitions=4)
    broker.create_topic(f"{TOPIC}-counts")
    query = ObservedQuery(broker.bootstrap, folder)
    context = multiprocessing.get_context("spawn")
    acknowledged: Synchronized[int] = context.Value("q", 0)
    with query.running():
        produce(broker.bootstrap, 1, 1.0, acknowledged)
        deadline = time.monotonic() + FIRST_STEP_S
        while query.processed < acknowledged.value:
            if time.monotonic() > deadline:
                raise SteadyRunFailed(
                    f"no micro-batch after {FIRST_STEP_S:.0f} s: {query.log.read_text()}"
                )
            time.sleep(EVERY_S)
            query.read_progress()
        producer = context.Process(
            target=produce, args=(broker.bootstrap, per_s, seconds, acknowledged)
        )
        producer.start()
        try:
            samples = list(sample_query(broker, query, producer, acknowledged))
        finally:
            producer.terminate()
            producer.join()
    return samples, query


def plot(samples: Sequence[SteadySample], title: str, path: Path) -> None:
    """Plot memory and lag over time."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    minutes = [sample.at_s / 60 for sample in samples]
    figure, (memory, lag) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 6))
    for name, label in (
        ("driver_jvm_mb", "driver, Java"),
        ("driver_python_mb", "driver, Python"),
        ("broker_mb", "broker"),
    ):
        memory.plot(minutes, [getattr(sample, name) for sample in samples], label=label)
    memory.set(ylabel="resident memory, MB", ylim=(0, None), title=title)
    memory.legend()
    lag.plot(minutes, [sample.lag / 1000 for sample in samples], color="tab:red")
    lag.set(ylabel="lag, thousand records", xlabel="minutes", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(path, format=path.suffix.lstrip("."), metadata={"Date": None})
    pyplot.close(figure)


def report(samples: Sequence[SteadySample], query: ObservedQuery, title: str) -> Table:
    """Return the figures of the first and last quarter of a run, which show what grows."""
    quarter = max(1, len(samples) // 4)
    table = Table(title=title)
    for column in ("", "first quarter", "last quarter", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, label in (
        ("broker_mb", "broker, MB"),
        ("driver_jvm_mb", "driver's Java, MB"),
        ("driver_python_mb", "driver's Python, MB"),
        ("lag", "lag, records"),
    ):
        values = [getattr(sample, name) for sample in samples]
        halves = (values[:quarter], values[-quarter:])
        medians = [f"{statistics.median(part):,.0f}" for part in halves]
        table.add_row(label, *medians, f"{max(values):,.0f}")
    batches = query.durations_ms
    table.add_row(
        "micro-batches", "", f"median {statistics.median(batches):,.0f} ms", f"{max(batches):,} ms"
    )
    rate = samples[-1].acknowledged / samples[-1].at_s
    table.add_row("records", "", f"{samples[-1].acknowledged:,}", f"{rate:,.0f}/s")
    return table


def write(samples: Sequence[SteadySample], path: Path) -> None:
    """Write all samples as CSV."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(SteadySample)])
        writer.writeheader()
        writer.writerows(map(asdict, samples))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--minutes", default=60.0, help="How long the producer writes.")
@click.option("--rate", "per_s", default=20_000, help="Records per second.")
@click.option("--apache", is_flag=True, help="Use Apache Kafka instead of kwire.")
@click.option(
    "--report", "out", type=click.Path(file_okay=False, path_type=Path),
    default=Path("artifacts/steady"), help="Directory for the plot and the samples.",
)  # fmt: skip
def main(minutes: float, per_s: int, apache: bool, out: Path) -> None:
    """Measure memory and lag while a query counts the records of a steady producer."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kwire-steady-") as name:
        folder = Path(name)
        broker: BenchBroker = Apache(folder / "apache") if apache else Kwire(folder / "kwire")
        title = f"{broker.name}: {per_s:,} records of {VALUE_BYTES} B a second, {minutes:g} min"
        try:
            with running(broker):
                samples, query = run(broker, per_s, minutes * 60, folder)
        except (SteadyRunFailed, BrokerFailed) as error:
            raise click.ClickException(str(error)) from error
    write(samples, out / "samples.csv")
    plot(samples, title, out / "steady.svg")
    Console().print(report(samples, query, title))
    click.echo(f"{os.path.relpath(out / 'steady.svg')}, {os.path.relpath(out / 'samples.csv')}")


if __name__ == "__main__":
    main()
