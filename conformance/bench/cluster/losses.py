"""Measures a cluster that loses a broker, shuts one down, or has a follower that catches up."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.cluster.asking import (
    NOBODY,
    PRODUCE_VERSION,
    WAIT_S,
    ClusterRequests,
    NotInTime,
    until,
)
from kwire.conformance.bench.cluster.steady import (
    CLIENT_PARTITIONS,
    VALUE_BYTES,
    PacedClient,
    keep_pace,
)
from kwire.conformance.bench.cluster.subjects import (
    COUNT,
    HEARTBEATS_A_SESSION,
    BenchSubject,
)
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figures

PROBE_S: Final = 0.005
"""Interval of requests to the survivors after a loss, which limits the precision of the time."""
MANY_PROBE_S: Final = 0.1
BATCH_BYTES: Final = 900_000
CATCH_UP_PARTITIONS: Final = 6
PARTITIONS_A_TOPIC: Final = 100
SHORT_BACKOFFS: Final = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "topic.metadata.refresh.interval.ms": 200,
}
"""Settings of librdkafka with which it looks for a new leader soon.

The last one matters most: a client that is connected to the lost leader alone asks for metadata at
its next refresh or topic scan only, and the scan comes once a second.
"""
RECORD_S: Final = 0.005
"""Time between two records of a client, until the leader is lost and after it."""
BEFORE_LOSS_S: Final = 1.0


def failover(
    subject: BenchSubject, asking: ClusterRequests, kills: int, session_timeout_ms: int
) -> list[float]:
    """Seconds from kill -9 of the leader to the next record that all in-sync replicas acknowledge.

    A session ends a fixed time after its last request, and each change of a replica causes one, so
    the time depends on the moment of the kill. The moments are spread evenly over the time between
    two heartbeats, and are the same for each cluster.
    """
    topic = new_topic()
    asking.create(topic, 1)
    between_s = session_timeout_ms / 1000 / HEARTBEATS_A_SESSION
    moments_s = [between_s * (number + 0.5) / kills for number in range(kills)]
    return [_failover(subject, asking, topic, moment_s) for moment_s in moments_s]


def _failover(subject: BenchSubject, asking: ClusterRequests, topic: str, in_s: float) -> float:
    """Kill the leader and return the seconds until another broker acknowledges a record.

    `in_s` is a wait before, so that the loss comes at different moments of the session. The killed
    broker is started again and in sync when this returns.
    """
    batch = frames.batch(1, VALUE_BYTES)
    time.sleep(in_s)
    lost = asking.leader(1, topic)
    until(lambda: asking.is_acknowledged(lost, topic, batch), "a record before the loss")
    subject.brokers[lost].kill()
    start = time.monotonic()
    survivors = [broker_id for broker_id in subject.brokers if broker_id != lost]

    def continues() -> bool:
        """Return whether one of the surviving brokers acknowledges a record."""
        return any(_accepts(asking, survivor, lost, topic, batch) for survivor in survivors)

    until(continues, "a record after the loss", PROBE_S)
    took = time.monotonic() - start
    _come_back(subject, asking, lost)
    asking.wait_until_in_sync([topic], 1, COUNT)
    return took


def _accepts(asking: ClusterRequests, survivor: int, lost: int, topic: str, batch: bytes) -> bool:
    """Return whether the leader that this survivor reports accepts a record."""
    leader = asking.leader(survivor, topic)
    return leader not in (NOBODY, lost) and asking.is_acknowledged(leader, topic, batch)


def _come_back(subject: BenchSubject, asking: ClusterRequests, broker_id: int) -> None:
    subject.brokers[broker_id].start()
    asking.wait_until_members()


def client_failover(
    subject: BenchSubject,
    asking: ClusterRequests,
    kills: int,
    session_timeout_ms: int,
    settings: Mapping[str, object],
) -> list[float]:
    """Seconds from kill -9 of the leader until a client's next record is acknowledged.

    The client is an idempotent producer of librdkafka with acks=all and these settings; each kill
    has a new one.  The moments of the kills are those of `failover`.
    """
    topic = new_topic()
    asking.create(topic, 1)
    between_s = session_timeout_ms / 1000 / HEARTBEATS_A_SESSION
    return [
        _client_failover(
            subject, asking, topic, BEFORE_LOSS_S + between_s * (number + 0.5) / kills, settings
        )
        for number in range(kills)
    ]


def _client_failover(
    subject: BenchSubject,
    asking: ClusterRequests,
    topic: str,
    in_s: float,
    settings: Mapping[str, object],
) -> float:
    """Kill the leader after `in_s`, and return the seconds until the client goes on.

    Only a record that was produced after the kill counts.  The killed broker is started again and
    in sync when this returns.
    """
    client = PacedClient(subject.bootstrap, **settings)
    numbers = itertools.count()

    def produce_until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > deadline:
                raise NotInTime(f"not within {WAIT_S:.0f} s: an acknowledged record of librdkafka")
            client.send(topic, next(numbers), 1)
            client.poll(RECORD_S)

    lost = asking.leader(1, topic)
    start = time.monotonic()
    produce_until(lambda: client.acknowledged >= 0 and time.monotonic() > start + in_s)
    start = time.monotonic()
    subject.brokers[lost].kill()
    first = next(numbers)
    client.send(topic, first, 1)
    produce_until(lambda: client.acknowledged >= first)
    took = time.monotonic() - start
    client.finish()
    _come_back(subject, asking, lost)
    asking.wait_until_in_sync([topic], 1, COUNT)
    return took


def shutdowns(subject: BenchSubject, asking: ClusterRequests) -> dict[str, list[float]]:
    """Stop and start each broker in turn while a client writes.

    `failed` is the number of failed records, `longest` the longest wait of a record in ms, and
    `stop` the seconds of each stop.
    """
    topic = new_topic()
    asking.create(topic, CLIENT_PARTITIONS)
    client = PacedClient(subject.bootstrap)
    over = threading.Event()
    writer = threading.Thread(
        target=keep_pace,
        args=(client, topic, CLIENT_PARTITIONS, lambda _: not over.is_set()),
    )
    writer.start()
    stops = []
    try:
        for broker_id, broker in subject.brokers.items():
            start = time.monotonic()
            broker.stop()
            stops.append(time.monotonic() - start)
            _come_back(subject, asking, broker_id)
            asking.wait_until_in_sync([topic], CLIENT_PARTITIONS, COUNT)
    finally:
        over.set()
        writer.join()
    longest = 1000 * max(client.waits_s, default=float("inf"))
    return {"failed": [float(len(client.failures))], "longest": [longest], "stop": stops}


def catch_up(subject: BenchSubject, asking: ClusterRequests, megabytes: int) -> Figures:
    """Return the MB/s of a broker that gets replicas of partitions on two others."""
    topic = new_topic()
    two = {at: (1, 2) if at % 2 else (2, 1) for at in range(CATCH_UP_PARTITIONS)}
    asking.create_on(topic, two)
    batch = frames.batch(1, BATCH_BYTES)
    count = max(1, round(megabytes * 1e6 / len(batch) / CATCH_UP_PARTITIONS))
    for at, (leader, _) in two.items():
        load.fill(subject.address(leader), topic, batch, count, 1, at, PRODUCE_VERSION)
    asking.wait_until_in_sync([topic], CATCH_UP_PARTITIONS, 2)
    start = time.monotonic()
    asking.reassign(topic, {at: (*on, 3) for at, on in two.items()})
    asking.wait_until_in_sync([topic], CATCH_UP_PARTITIONS, COUNT)
    took = time.monotonic() - start
    return {"bytes": count * CATCH_UP_PARTITIONS * len(batch) / 1e6 / took}


class ManyPartitions:
    """Loses a broker of a cluster with many partitions."""

    def __init__(self, subject: BenchSubject, asking: ClusterRequests, partitions: int) -> None:
        self._subject, self._asking = subject, asking
        self._count = partitions
        self._topics = [new_topic() for _ in range(max(1, partitions // PARTITIONS_A_TOPIC))]
        self._each = partitions // len(self._topics)

    def create(self) -> float:
        """Create the topics; seconds until all replicas are in sync."""
        start = time.monotonic()
        self._asking.create_many(self._topics, self._each)
        return time.monotonic() - start

    def lose(self, *, controller: bool) -> float:
        """Return the seconds from kill -9 of a broker until the survivors serve all partitions.

        The broker is the controller if `controller`, else another one.
        """
        ids = {*self._subject.brokers}
        current = self._asking.controller(ids)
        lost = current if controller else min(ids - {current})
        self._subject.brokers[lost].kill()
        start = time.monotonic()
        until(lambda: self._is_whole(ids - {lost}), "all partitions served", MANY_PROBE_S)
        took = time.monotonic() - start
        _come_back(self._subject, self._asking, lost)
        self._asking.wait_until_in_sync(self._topics, self._count, COUNT)
        return took

    def _is_whole(self, survivors: set[int]) -> bool:
        """Return whether every partition is led, and served, by one of the surviving brokers."""
        led: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for at, partition in self._asking.partitions(min(survivors), self._topics).items():
            led[partition.leader_id].append(at)
        return (
            sum(map(len, led.values())) == self._count
            and led.keys() <= survivors
            and all(self._asking.are_served(leader, led[leader]) for leader in led)
        )
