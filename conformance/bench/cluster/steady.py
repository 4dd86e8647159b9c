"""Kinds of work on a cluster without failures; all in-sync replicas acknowledge each record."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.cluster.asking import PRODUCE_VERSION, ClusterRequests
from kwire.conformance.bench.cluster.subjects import BenchSubject
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figure, Figures

ALL: Final = -1
"""The value of acks that waits for all in-sync replicas."""
CONNECTIONS: Final = 16
CLIENT_PARTITIONS: Final = 6
VALUE_BYTES: Final = 100
PACE_PER_S: Final = 2_000
SLICE_S: Final = 0.01
FLUSH_S: Final = 60.0
EMERGENCIES: Final = 0
"""The log level of librdkafka, since brokers go away on purpose."""
QUEUE_WAIT_S: Final = 0.01


class ClusterWork(ABC):
    """One kind of work on a new topic with a replica on each broker."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    partitions = 1

    def measure(
        self, subject: BenchSubject, asking: ClusterRequests, warm_s: float, seconds: float
    ) -> Figures:
        """Return the figures of `seconds`, after a warm-up of `warm_s`."""
        topic = new_topic()
        asking.create(topic, self.partitions)
        partitions = asking.partitions(1, [topic])
        leaders = [
            subject.address(partitions[topic, at].leader_id) for at in range(self.partitions)
        ]
        if warm_s:
            self.turn(subject, leaders, topic, warm_s)
        return self.turn(subject, leaders, topic, seconds)

    @abstractmethod
    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Do the work for `seconds`."""


class OneInFlight(ClusterWork):
    """Measures how long a record takes until all in-sync replicas have it."""

    key = "latency"
    title = f"one record of {VALUE_BYTES} B in flight"
    figures = (
        Figure("requests", "req/s"),
        Figure("p50", "ms", more_is_better=False),
        Figure("p99", "ms", more_is_better=False),
    )

    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Measure single records with one request in flight: requests per second, p50 and p99 in
        ms."""
        batch = frames.batch(1, VALUE_BYTES)
        sample = load.produce(leaders[0], topic, batch, seconds, acks=ALL, version=PRODUCE_VERSION)
        assert sample.p50_us is not None
        assert sample.p99_us is not None
        return {
            "requests": sample.per_second,
            "p50": sample.p50_us / 1000,
            "p99": sample.p99_us / 1000,
        }


class LargeBatches(ClusterWork):
    key = "bytes"
    title = "batches of 100 x 1 kB, 5 in flight on one connection"
    figures = (Figure("bytes", "MB/s"),)

    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Measure batches of 100 records of 1000 bytes with five requests in flight, in MB/s."""
        batch = frames.batch(100, 1000)
        sample = load.produce(
            leaders[0],
            topic,
            batch,
            seconds,
            in_flight=5,
            records_count=100,
            acks=ALL,
            version=PRODUCE_VERSION,
        )
        return {"bytes": sample.mb_per_second}


class ManyConnections(ClusterWork):
    key = "connections"
    title = f"{CONNECTIONS} connections to all leaders, one record of {VALUE_BYTES} B in flight"
    figures = (Figure("requests", "req/s"),)
    partitions = CONNECTIONS

    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Measure single records from many connections, in requests per second."""
        batch = frames.batch(1, VALUE_BYTES)
        sample = load.produce_on_many(
            leaders, topic, batch, seconds, acks=ALL, version=PRODUCE_VERSION
        )
        return {"requests": sample.per_second}


class PacedClient:
    """librdkafka with default settings and the given ones; counts failed records."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        """Create an idempotent producer of librdkafka with acks=all and these settings."""
        given = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        given["log_level"] = EMERGENCIES
        self._producer = Producer({**given, **settings})
        self._value = bytes(VALUE_BYTES)
        self.waits_s: list[float] = []
        """The time of each acknowledged record from `produce` to its acknowledgement, in
        seconds."""
        self.failures: list[KafkaError] = []
        self.acknowledged = -1
        """The largest number of an acknowledged record."""

    def send(self, topic: str, number: int, partitions: int) -> None:
        """Produce a record to the next partition in turn; wait while the client's queue is full."""
        while True:
            start = time.monotonic()

            def delivered(error: KafkaError | None, _: Message, start: float = start) -> None:
                """Note the wait of an acknowledged record, or the error."""
                if error is None:
                    self.waits_s.append(time.monotonic() - start)
                    self.acknowledged = max(self.acknowledged, number)
                else:
                    self.failures.append(error)

            try:
                self._producer.produce(
                    topic, self._value, partition=number % partitions, on_delivery=delivered
                )
                return
            except BufferError:
                self._producer.poll(QUEUE_WAIT_S)

    def poll(self, seconds: float = 0.0) -> None:
        self._producer.poll(seconds)

    def finish(self) -> None:
        """Wait until all records are acknowledged or have failed. Raises RequestFailed."""
        if left := self._producer.flush(FLUSH_S):
            raise RequestFailed(f"librdkafka: {left} records were not acknowledged")


class AsFastAsItGoes(ClusterWork):
    key = "client"
    title = f"librdkafka, idempotent, records of {VALUE_BYTES} B to {CLIENT_PARTITIONS} partitions"
    figures = (Figure("records", "records/s"),)
    partitions = CLIENT_PARTITIONS

    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Measure librdkafka without a limit, in acknowledged records per second.

        Raise RequestFailed if a record was not acknowledged.
        """
        client = PacedClient(subject.bootstrap)
        start = time.monotonic()
        number = 0
        while time.monotonic() < start + seconds:
            for _ in range(100):
                client.send(topic, number, self.partitions)
                number += 1
            client.poll()
        client.finish()
        if client.failures:
            raise RequestFailed(f"librdkafka: {client.failures[0]}")
        return {"records": number / (time.monotonic() - start)}


class Paced(ClusterWork):
    """Measures how long records take at a rate that is easy for all brokers."""

    key = "paced"
    title = f"librdkafka, {PACE_PER_S:,} records/s to {CLIENT_PARTITIONS} partitions"
    figures = (
        Figure("p50", "ms", more_is_better=False),
        Figure("p99", "ms", more_is_better=False),
    )
    partitions = CLIENT_PARTITIONS

    def turn(
        self, subject: BenchSubject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Measure librdkafka at a fixed rate: p50 and p99 until the acknowledgement, in ms."""
        client = PacedClient(subject.bootstrap)
        keep_pace(client, topic, self.partitions, lambda passed_s: passed_s < seconds)
        if client.failures:
            raise RequestFailed(f"librdkafka: {client.failures[0]}")
        waits = sorted(client.waits_s)
        return {
            name: 1000 * waits[min(int(len(waits) * share), len(waits) - 1)]
            for name, share in (("p50", 0.50), ("p99", 0.99))
        }


def keep_pace(
    client: PacedClient, topic: str, partitions: int, goes_on: Callable[[float], bool]
) -> None:
    """Send PACE_PER_S records per second; late slices are made up for."""
    start = time.monotonic()
    sent = slices = 0
    while goes_on(time.monotonic() - start):
        slices += 1
        while sent < slices * SLICE_S * PACE_PER_S:
            client.send(topic, sent, partitions)
            sent += 1
        while (left := start + slices * SLICE_S - time.monotonic()) > 0:
            client.poll(left)
        client.poll()
    client.finish()


WORKS: tuple[ClusterWork, ...] = (
    OneInFlight(),
    LargeBatches(),
    ManyConnections(),
    AsFastAsItGoes(),
    Paced(),
)
