"""The kinds of work on raw sockets, a row of the table each, and what kwire has to reach."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import Broker, Floor
from kwire.conformance.bench.load import Address, Sample

Figures = dict[str, float]
"""What one turn gave, by the name of the figure."""

FETCH_BYTES = 1 << 20
HOT_BYTES = 64 << 20
CONNECTIONS = 16
FIRST_SECONDS = 5.0
FIRST_SECONDS_TARGET = 2.0


@dataclass(frozen=True)
class Figure:
    """One number of a row. `target` is how many times better than Apache Kafka it must be."""

    name: str
    unit: str
    more_is_better: bool = True
    target: float | None = None

    def times_better(self, ours: float, theirs: float) -> float:
        """Above 1 where `ours` is the better one, whichever way better is."""
        return ours / theirs if self.more_is_better else theirs / ours


class Row(ABC):
    """One kind of work. `prepare` is not measured; `turn` is, once or several times after it."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    partitions = 1
    on_floor = True

    def prepare(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, self.partitions)

    @abstractmethod
    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        """Do the work for so long."""

    @abstractmethod
    def figures_of(self, sample: Sample) -> Figures:
        """The row's figures, by name."""

    def measure(self, broker: Broker, topic: str, seconds: float) -> Figures:
        return self.figures_of(self.sample(broker.address, topic, seconds))

    def runs_on(self, broker: Broker) -> bool:
        return self.on_floor or not isinstance(broker, Floor)


@cache
def _batch(records_count: int, value_bytes: int) -> bytes:
    return frames.batch(records_count, value_bytes)


class Produce(Row):
    """Produce requests of one batch on one connection."""

    def __init__(self, key: str, title: str, records: tuple[int, int], in_flight: int) -> None:
        self.key, self.title = key, title
        self.records_count, self.value_bytes = records
        self.in_flight = in_flight

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
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
    """Counted in requests, and timed one by one where one is in flight."""

    def __init__(self, key: str, title: str, in_flight: int, target: float) -> None:
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
    """Counted in bytes of batches."""

    def __init__(self, key: str, title: str, records: tuple[int, int], target: float) -> None:
        super().__init__(key, title, records, in_flight=5)
        self.figures = (Figure("bytes", "MB/s", target=target),)

    def figures_of(self, sample: Sample) -> Figures:
        return {"bytes": sample.mb_per_second}


class Connections(Row):
    """Many connections, each with one tiny request in flight to a partition of its own."""

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
    """Fetches of the same 1 MB, which stays in the processor's cache, by a client that only reads.

    What the brokers do is most of the time then; `ScanFetch` is bound by the memory's speed.
    """

    key = "fetch"
    title = "hot fetch of the same 1 MB, one in flight"
    figures: tuple[Figure, ...] = (Figure("bytes", "MB/s", target=1.5),)

    def prepare(self, broker: Broker, topic: str) -> None:
        super().prepare(broker, topic)
        batch = _batch(150, 100)
        load.fill(broker.address, topic, batch, HOT_BYTES // len(batch), 150)

    def offsets(self) -> list[int]:
        """Where the fetches start, in turn."""
        return [0]

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        return load.fetch(address, topic, self.offsets(), seconds, max_bytes=FETCH_BYTES)

    def figures_of(self, sample: Sample) -> Figures:
        return {"bytes": sample.mb_per_second}


class ScanFetch(HotFetch):
    """Fetches of one 1 MB after another of what was just written: everything moves through RAM."""

    key = "scan"
    title = "fetch of 1 MB after 1 MB, one in flight"
    figures = (Figure("bytes", "MB/s"),)

    def offsets(self) -> list[int]:
        batches = HOT_BYTES // len(_batch(150, 100))
        apart = FETCH_BYTES // len(_batch(150, 100))
        return [index * 150 for index in range(0, batches - apart - 1, apart)]


class Latency(Row):
    """From a producer's send to the arrival at a consumer whose fetch was waiting."""

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
