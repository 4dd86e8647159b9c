"""`python -m kwire.conformance.bench.cold`: measures producers beside a consumer of a cold log.

It writes a log of some GB and removes it from the page cache. Then it times small produce requests,
one in flight, without and with a consumer that reads the whole log. Linux only, because it uses
posix_fadvise, which needs no rights except to the files.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import Apache, BenchBroker, Kwire, running
from kwire.conformance.bench.load import Address, Sample

BATCH_RECORDS = 1000
BATCH_VALUE_BYTES = 1000
FETCH_BYTES = 1 << 20
QUIET_S = 5.0
READ_S_MAX = 120.0
START_S = 0.5
"""Time for the reader to start."""


def fill(broker: BenchBroker, topic: str, size_bytes: int) -> int:
    """Write the log; return the number of its records."""
    broker.create_topic(topic)
    batch = frames.batch(BATCH_RECORDS, BATCH_VALUE_BYTES)
    count = size_bytes // len(batch)
    load.fill(broker.address, topic, batch, count, BATCH_RECORDS)
    return count * BATCH_RECORDS


def drop_pages(directory: Path) -> None:
    """Remove all segments under `directory` from the page cache."""
    for path in directory.rglob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_all(
    address: Address, topic: str, records: int, results: multiprocessing.Queue[float]
) -> None:
    """Fetch the whole log, and put the seconds that it took into `results`."""
    start = time.perf_counter()
    step = max(1, FETCH_BYTES // (BATCH_RECORDS * BATCH_VALUE_BYTES)) * BATCH_RECORDS
    load.fetch_through(address, topic, range(0, records, step), max_bytes=FETCH_BYTES)
    results.put(time.perf_counter() - start)


def measure(
    broker: BenchBroker, topic: str, records: int, directory: Path
) -> Iterator[Sample | float]:
    """Yield samples of the producer alone and beside the reader, and the seconds that the reader
    took."""
    batch = frames.batch(1, 100)
    broker.create_topic(f"{topic}-tiny")
    load.produce(broker.address, f"{topic}-tiny", batch, 1.0)
    yield load.produce(broker.address, f"{topic}-tiny", batch, QUIET_S)
    drop_pages(directory)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[float] = context.Queue()
    reader = context.Process(target=read_all, args=(broker.address, topic, records, results))
    reader.start()
    time.sleep(START_S)
    yield load.produce(broker.address, f"{topic}-tiny", batch, QUIET_S)
    reader.join(READ_S_MAX)
    reader.terminate()
    yield results.get(timeout=1)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--gigabytes", default=5.0, show_default=True, help="Size of the log.")
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
def main(gigabytes: float, only_kwire: bool) -> None:
    """Time small produce requests without and with a consumer of a cold log beside them."""
    table = Table(title=f"one tiny request in flight beside a consumer of {gigabytes:g} GB on disk")
    for column in ("broker", "p50 alone", "p99 alone", "p50 beside", "p99 beside", "read at"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    with tempfile.TemporaryDirectory(prefix="kwire-cold-") as folder:
        brokers: Sequence[BenchBroker] = [Kwire(Path(folder) / "kwire")]
        if not only_kwire:
            brokers = [*brokers, Apache(Path(folder) / "apache")]
        for broker in brokers:
            with running(broker):
                records = fill(broker, "cold", int(gigabytes * 1e9))
                alone, beside, seconds = measure(broker, "cold", records, Path(folder))
            assert isinstance(alone, Sample)
            assert isinstance(beside, Sample)
            assert isinstance(seconds, float)
            times = (alone.p50_us, alone.p99_us, beside.p50_us, beside.p99_us)
            speed = f"{gigabytes * 1e3 / seconds:.0f} MB/s"
            table.add_row(broker.name, *(f"{us:.0f} µs" for us in times if us), speed)
    Console().print(table)


if __name__ == "__main__":
    main()
