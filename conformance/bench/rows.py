"""The kinds of work on raw sockets, one row of the table each, with kwire's targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker, Floor
from kwire.conformance.bench.load import Address, Sample

Figures = dict[str, float]
"""The figures of one turn, by name."""

FETCH_BYTES = 1 << 20
HOT_BYTES = 64 << 20
CONNECTIONS = 16
FIRST_SECONDS = 5.0
FIRST_SECONDS_TARGET = 2.0


@dataclass(frozen=True)
class Figure:
    """One number of a row; `target` is how many times better than Apache Kafka it must be."""

    name: str
    unit: str
    more_is_better: bool = True
    target: float | None = None

    def times_better(self, ours: float, theirs: float) -> float:
        """Return the ratio of the values; above 1 if `ours` is better, in either direction."""
        return ours / theirs if self.more_is_better else theirs / ours


class Row(ABC):
    """One kind of work; `prepare` is not measured, and `sample` may follow it several times."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    partitions = 1
    on_floor = True

    def prepare(self, broker: BenchBroker, topic: str) -> None:
        broker.create_topic(topic, self.partitions)

    @abstractmethod
    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        """Do the work for `seconds`."""

    @abstractmethod
    def figures_of(self, sample: Sample) -> Figures:
        """Return the row's figures by name."""

    def measure(self, broker: BenchBroker, topic: str, seconds: float) -> Figures:
        return self.figures_of(self.sample(broker.address, topic, seconds))

    def runs_on(self, broker: BenchBroker) -> bool:
        return self.on_floor or not isinstance(broker, Floor)


@cache
def _batch(records_count: int, value_bytes: int) -> bytes:
    return frames.batch(records_count, value_bytes)


class Produce(Row):
    """Sends produce requests of one batch on one connection."""

    def __init__(self, key: str, title: str, records: tuple[int, int], in_flight: int) -> None:
        self.key, self.title = key, title
        self.records_count, self.value_bytes = records
        self.in_flight = in_flight

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        """Produce the same batch for `seconds`, and return what was acknowledged."""
        batch = _batch(self.records_count, self.value_bytes)
        return load.produce(
            address,
            topic,
            batch,
            seconds,
            in_flight=self.in_flight,
            records_count=self.records_count,
        )


class ProduceRequests(Produce):
    """Counts requests, and times each one if one is in flight."""

    def __init__(self, key: str, title: str, in_flight: int, target: float) -> None:
        """Measure requests of one record of 100 bytes; latencies too if one is in flight.

        With several in flight a latency would mostly be the wait behind the others.
        """
        super().__init__(key, title, (1, 100), in_flight)
        self.figures = (Figure("requests", "req/s", target=target),)
        if in_flight == 1:
            self.figures += (
                Figure("p50", "µs", more_is_better=False),
                Figure("p99", "µs", more_is_better=False),
            )

    def figures_of(self, sample: Sample) -> Figures:
        return {"requests": sample.per_second} | _percentiles(sample)


class ProduceBytes(Produce):
    """Counts the bytes of batches."""

    def __init__(self, key: str, title: str, records: tuple[int, int], target: float) -> None:
        super().__init__(key, title, records, in_flight=5)
        self.figures = (Figure("bytes", "MB/s", target=target),)

    def figures_of(self, sample: Sample) -> Figures:
        return {"bytes": sample.mb_per_second}


class Connections(Row):
    """Sends one small request on each of many connections, each to a partition of its own."""

    key = "connections"
    title = f"{CONNECTIONS} connections, one tiny request in flight each"
    figures = (Figure("requests", "req/s", target=1.0),)
    partitions = CONNECTIONS

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        batch = _batch(1, 100)
        return load.produce_on_many([address] * CONNECTIONS, topic, batch, seconds)

    def figures_of(self, sample: Sample) -> Figures:
        return {"requests": sample.per_second}


class HotFetch(Row):
    """Fetches the same 1 MB, which stays in the processor's cache, with a client that only reads.

    Most of the time is the broker's work then, while the speed of memory limits `ScanFetch`.
    """

    key = "fetch"
    title = "hot fetch of the same 1 MB, one in flight"
    figures: tuple[Figure, ...] = (Figure("bytes", "MB/s", target=1.5),)

    def prepare(self, broker: BenchBroker, topic: str) -> None:
        super().prepare(broker, topic)
        batch = _batch(150, 100)
        load.fill(broker.address, topic, batch, HOT_BYTES // len(batch), 150)

    def offsets(self) -> list[int]:
        """Return the offsets of the fetches, in turn."""
        return [0]

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        return load.fetch(address, topic, self.offsets(), seconds, max_bytes=FETCH_BYTES)

    def figures_of(self, sample: Sample) -> Figures:
        return {"bytes": sample.mb_per_second}


class ScanFetch(HotFetch):
    """Fetches 1 MB after another that was just written, so that all data moves through memory."""

    key = "scan"
    title = "fetch of 1 MB after 1 MB, one in flight"
    figures = (Figure("bytes", "MB/s"),)

    def offsets(self) -> list[int]:
        batches = HOT_BYTES // len(_batch(150, 100))
        apart = FETCH_BYTES // len(_batch(150, 100))
        return [index * 150 for index in range(0, batches - apart - 1, apart)]


class Latency(Row):
    """Times from a producer's send to the arrival at a consumer whose fetch waits."""

    key = "latency"
    title = "produce to consume, one tiny record"
    figures = (
        Figure("p50", "µs", more_is_better=False, target=1.0),
        Figure("p99", "µs", more_is_better=False, target=1.0),
    )
    on_floor = False

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        return load.latency(address, topic, _batch(1, 100), seconds)

    def figures_of(self, sample: Sample) -> Figures:
        return _percentiles(sample)


def _percentiles(sample: Sample) -> Figures:
    if sample.p50_us is None or sample.p99_us is None:
        return {}
    return {"p50": sample.p50_us, "p99": sample.p99_us}


ROWS: tuple[Row, ...] = (
    ProduceRequests("tiny1", "produce 1 x 100 B, one in flight", 1, target=1.2),
    ProduceRequests("tiny5", "produce 1 x 100 B, five in flight", 5, target=2.0),
    ProduceBytes("batch16k", "produce 150 x 100 B, five in flight", (150, 100), target=2.0),
    ProduceBytes("batch1m", "produce 1000 x 1 kB, five in flight", (1000, 1000), target=1.5),
    Connections(),
    HotFetch(),
    ScanFetch(),
    Latency(),
)
