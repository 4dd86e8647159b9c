"""Work on a cluster in which all is well: each record is acknowledged by all that are in sync."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.cluster.asking import PRODUCE_VERSION, Asking
from kwire.conformance.bench.cluster.subjects import Subject
from kwire.conformance.bench.frames import BrokerRefused
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figure, Figures

ALL: Final = -1
"""acks of who waits for all that are in sync."""
CONNECTIONS: Final = 16
CLIENT_PARTITIONS: Final = 6
VALUE_BYTES: Final = 100
PACE_PER_S: Final = 2_000
SLICE_S: Final = 0.01
FLUSH_S: Final = 60.0
EMERGENCIES: Final = 0
"""Of syslog: that brokers go away is what is asked for."""
QUEUE_WAIT_S: Final = 0.01


class Work(ABC):
    """One kind of work on a topic of its own, with a replica on each broker."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    partitions = 1

    def measure(self, subject: Subject, asking: Asking, warm_s: float, seconds: float) -> Figures:
        """Its figures in so many seconds, after those that are not counted."""
        topic = new_topic()
        asking.create(topic, self.partitions)
        known = asking.partitions(1, [topic])
        leaders = [subject.address(known[topic, at].leader_id) for at in range(self.partitions)]
        if warm_s:
            self.turn(subject, leaders, topic, warm_s)
        return self.turn(subject, leaders, topic, seconds)

    @abstractmethod
    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        """Do the work for so long."""


class OneInFlight(Work):
    """How long a record takes until all in sync have it."""

    key = "latency"
    title = f"one record of {VALUE_BYTES} B in flight"
    figures = (
        Figure("requests", "req/s"),
        Figure("p50", "ms", more_is_better=False),
        Figure("p99", "ms", more_is_better=False),
    )

    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        batch = frames.batch(1, VALUE_BYTES)
        sample = load.produce(leaders[0], topic, batch, seconds, acks=ALL, version=PRODUCE_VERSION)
        assert sample.p50_us is not None
        assert sample.p99_us is not None
        return {
            "requests": sample.per_second,
            "p50": sample.p50_us / 1000,
            "p99": sample.p99_us / 1000,
        }


class LargeBatches(Work):
    key = "bytes"
    title = "batches of 100 x 1 kB, 5 in flight on one connection"
    figures = (Figure("bytes", "MB/s"),)

    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
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


class ManyConnections(Work):
    key = "connections"
    title = f"{CONNECTIONS} connections to all leaders, one record of {VALUE_BYTES} B in flight"
    figures = (Figure("requests", "req/s"),)
    partitions = CONNECTIONS

    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        batch = frames.batch(1, VALUE_BYTES)
        sample = load.produce_on_many(
            leaders, topic, batch, seconds, acks=ALL, version=PRODUCE_VERSION
        )
        return {"requests": sample.per_second}


class Client:
    """librdkafka as it is by default, but for what is given; what is not taken is counted."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        given = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        given["log_level"] = EMERGENCIES
        self._producer = Producer({**given, **settings})
        self._value = bytes(VALUE_BYTES)
        self.waits_s: list[float] = []
        """Of each record that was acknowledged, from its hand-over on."""
        self.failures: list[KafkaError] = []

    def send(self, topic: str, number: int, partitions: int) -> None:
        while True:
            began = time.monotonic()

            def delivered(error: KafkaError | None, _: Message, began: float = began) -> None:
                if error is None:
                    self.waits_s.append(time.monotonic() - began)
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
        """Returns when all is acknowledged, or has failed.  Raises BrokerRefused."""
        if left := self._producer.flush(FLUSH_S):
            raise BrokerRefused(f"librdkafka: {left} records were not acknowledged")


class AsFastAsItGoes(Work):
    key = "client"
    title = f"librdkafka, idempotent, records of {VALUE_BYTES} B to {CLIENT_PARTITIONS} partitions"
    figures = (Figure("records", "records/s"),)
    partitions = CLIENT_PARTITIONS

    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        client = Client(subject.bootstrap)
        began = time.monotonic()
        number = 0
        while time.monotonic() < began + seconds:
            for _ in range(100):
                client.send(topic, number, self.partitions)
                number += 1
            client.poll()
        client.finish()
        if client.failures:
            raise BrokerRefused(f"librdkafka: {client.failures[0]}")
        return {"records": number / (time.monotonic() - began)}


class Paced(Work):
    """How long records take while no broker has its hands full."""

    key = "paced"
    title = f"librdkafka, {PACE_PER_S:,} records/s to {CLIENT_PARTITIONS} partitions"
    figures = (
        Figure("p50", "ms", more_is_better=False),
        Figure("p99", "ms", more_is_better=False),
    )
    partitions = CLIENT_PARTITIONS

    def turn(
        self, subject: Subject, leaders: list[load.Address], topic: str, seconds: float
    ) -> Figures:
        client = Client(subject.bootstrap)
        keep_pace(client, topic, self.partitions, lambda passed_s: passed_s < seconds)
        if client.failures:
            raise BrokerRefused(f"librdkafka: {client.failures[0]}")
        waits = sorted(client.waits_s)
        return {
            name: 1000 * waits[min(int(len(waits) * share), len(waits) - 1)]
            for name, share in (("p50", 0.50), ("p99", 0.99))
        }


def keep_pace(
    client: Client, topic: str, partitions: int, goes_on: Callable[[float], bool]
) -> None:
    """PACE_PER_S records a second; a slice that comes late is made up for."""
    began = time.monotonic()
    sent = slices = 0
    while goes_on(time.monotonic() - began):
        slices += 1
        while sent < slices * SLICE_S * PACE_PER_S:
            client.send(topic, sent, partitions)
            sent += 1
        while (left := began + slices * SLICE_S - time.monotonic()) > 0:
            client.poll(left)
        client.poll()
    client.finish()


WORKS: tuple[Work, ...] = (
    OneInFlight(),
    LargeBatches(),
    ManyConnections(),
    AsFastAsItGoes(),
    Paced(),
)
