"""`python -m kwire.conformance.bench.compaction`: measures compaction and its effect on others.

Both brokers get the same batches: records of 100 bytes with one distinct key for ten records, in
segments of 64 MB that may not be cleaned yet. Then a topic config allows it. The time until the
cleaner's checkpoint has the last whole segment is measured on an idle broker, and once more while a
client sends small produce requests to another topic. The latencies of these requests are compared
with those just before.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event, Thread

import click
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from rich.console import Console
from rich.table import Table

from kwire.codecs.batches import Record, build
from kwire.conformance import local
from kwire.conformance.apache_kafka import SERVER_JVM, ApacheKafka
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.load import Address, Sample

SETTINGS = {"log.cleaner.backoff.ms": "100"}
SEGMENT_BYTES = 64 << 20
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "1.0",  # never reached
}
CHECKPOINT = "cleaner-offset-checkpoint"
RECORD_BYTES = 100
RECORDS_PER_BATCH = 140
VALUE_BYTES = 83  # with a key of 8 bytes and the record's other fields: 100
DISTINCT_SHARE = 0.1
POLL_S = 0.02
WAIT_S = 900
SEED = 7


@dataclass
class Result:
    """The measurements of one broker."""

    broker: str
    quiet_s: float
    busy_s: float
    before: Sample
    during: list[Sample]


def batches(size_bytes: int) -> Iterator[bytearray]:
    """Yield the batches of the log, the same in each call."""
    rng = random.Random(SEED)
    count = size_bytes // RECORD_BYTES
    distinct = int(count * DISTINCT_SHARE)
    stamp = 1_700_000_000_000
    value = bytes(VALUE_BYTES)
    for _ in range(0, count, RECORDS_PER_BATCH):
        keys = [b"k%07d" % rng.randrange(distinct) for _ in range(RECORDS_PER_BATCH)]
        yield build([Record(number, stamp, key, value) for number, key in enumerate(keys)])


class CompactionBench:
    """A running broker, with the folder of its data."""

    def __init__(self, name: str, bootstrap: str, data_dir: Path) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.name = name
        self.address: Address = (host, int(port))
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._checkpoint = data_dir / CHECKPOINT

    def create(self, topic: str, configs: dict[str, str]) -> None:
        reply = load.ask(self.address, frames.create_topic(topic, 1, configs))
        if error := frames.topic_error(reply, topic):
            raise frames.RequestFailed(f"{self.name}: CreateTopics gave error code {error}")

    def fill(self, topic: str, size_bytes: int) -> None:
        """Create a topic whose log may not be cleaned yet, and write `size_bytes` to it."""
        self.create(topic, TOPIC_CONFIGS)
        with load.connect(self.address) as sock:
            for batch in batches(size_bytes):
                load.first_reply(sock, topic, frames.produce(topic, 0, bytes(batch)).data)

    def cleaned_to(self, topic: str) -> int:
        """Return the offset of the topic in the checkpoint; a broker replaces the file
        atomically."""
        try:
            lines = self._checkpoint.read_text().splitlines()[2:]
        except FileNotFoundError:
            return 0
        offsets = dict(line.rsplit(" ", 1) for line in lines)
        return int(offsets.get(f"{topic} 0", 0))

    def allow_cleaning(self, topic: str) -> None:
        """Let the cleaner begin, by a ratio of dirty bytes that the log exceeds."""
        entry = ConfigEntry(
            "min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def clean(self, topic: str) -> float:
        """Compact the topic; return the seconds until it is done."""
        start = time.monotonic()
        self.allow_cleaning(topic)
        while not self.cleaned_to(topic):
            if time.monotonic() - start > WAIT_S:
                raise TimeoutError(f"{self.name} does not clean {topic}")
            time.sleep(POLL_S)
        return time.monotonic() - start

    def tiny(self, seconds: float) -> Sample:
        batch = bytes(build([Record(0, 1_700_000_000_000, b"k", bytes(100))]))
        return load.produce(self.address, "tiny", batch, seconds)

    def tiny_during_cleaning(self, topic: str, slice_s: float) -> tuple[float, list[Sample]]:
        """Return the seconds that compaction takes, and samples of small requests in the
        meantime."""
        done = Event()
        took: list[float] = []

        def wait() -> None:
            took.append(self.clean(topic))
            done.set()

        waiter = Thread(target=wait)
        waiter.start()
        samples = [self.tiny(slice_s)]
        while not done.is_set():
            samples.append(self.tiny(slice_s))
        waiter.join()
        return took[0], samples[:-1] or samples  # compaction ended during the last slice

    def run(self, size_bytes: int, seconds: float) -> Result:
        """Measure compaction of `size_bytes`, on an idle broker and beside small produce requests.

        The requests are measured for `seconds` before it, after as long a time to warm up.
        """
        self.create("tiny", {})
        self.fill("quiet", size_bytes)
        quiet_s = self.clean("quiet")
        self.fill("busy", size_bytes)
        self.tiny(seconds)  # warm
        before = self.tiny(seconds)
        busy_s, during = self.tiny_during_cleaning("busy", seconds)
        return Result(self.name, quiet_s, busy_s, before, during)


@contextmanager
def started(name: str, folder: Path) -> Iterator[CompactionBench]:
    """Start the broker of this name and yield its measurement; it is stopped at the end."""
    if name == "kwire":
        with local.kwire(folder, SETTINGS) as bootstrap:
            yield CompactionBench(name, bootstrap, folder / "data")
    else:
        with ApacheKafka(folder, settings=SETTINGS, jvm=SERVER_JVM) as node:
            yield CompactionBench(name, node.bootstrap, folder / "data")


def table(results: list[Result]) -> Table:
    """Return the table of all results, one column for each broker."""
    shown = Table("", *(result.broker for result in results))
    rows: dict[str, list[str]] = {
        "compacting it, nothing else to do": [f"{r.quiet_s:.1f} s" for r in results],
        "compacting it, beside tiny produce requests": [f"{r.busy_s:.1f} s" for r in results],
        "tiny produce before: p50 / p99": [
            f"{r.before.p50_us:.0f} / {r.before.p99_us:.0f} us" for r in results
        ],
        "while compacting: p99 of the median slice": [_p99(r, median) for r in results],
        "while compacting: p99 of the worst slice": [_p99(r, max) for r in results],
    }
    for title, cells in rows.items():
        shown.add_row(title, *cells)
    return shown


def _p99(result: Result, choose: Callable[[list[float]], float]) -> str:
    """Return the p99 of one of the slices, and its ratio to the p99 before."""
    chosen = choose([sample.p99_us or 0.0 for sample in result.during])
    return f"{chosen:.0f} us, {chosen / (result.before.p99_us or 1):.2f} x"


@click.command()
@click.option("--mb", default=1000, show_default=True, help="Size of the log in 10^6 bytes.")
@click.option("--seconds", default=3.0, show_default=True, help="Length of a slice of requests.")
@click.option(
    "--broker",
    "names",
    multiple=True,
    type=click.Choice(["kwire", "Apache Kafka"]),
    default=["kwire", "Apache Kafka"],
)
def main(mb: int, seconds: float, names: tuple[str, ...]) -> None:
    """Measure one broker after the other."""
    results = []
    for name in names:
        with (
            tempfile.TemporaryDirectory(prefix="kwire-compaction-") as folder,
            started(name, Path(folder, "broker")) as bench,
        ):
            results.append(bench.run(mb * 1_000_000, seconds))
    console = Console()
    console.print(f"a log of {mb} MB, one key in ten records its own; seed {SEED}")
    console.print(table(results))


if __name__ == "__main__":
    main()
