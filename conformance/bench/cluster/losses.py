"""What a cluster does when a broker is lost, leaves, or comes to replicas that it lacks."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Final

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.cluster.asking import NOBODY, PRODUCE_VERSION, Asking, until
from kwire.conformance.bench.cluster.steady import CLIENT_PARTITIONS, VALUE_BYTES, Client, keep_pace
from kwire.conformance.bench.cluster.subjects import COUNT, Subject
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figures

PROBE_S: Final = 0.005
"""How often survivors are asked after a loss: what a time may be too long by."""
MANY_PROBE_S: Final = 0.1
HEARTBEATS_A_SESSION: Final = 3
"""Of ZooKeeper's clients, both Java's and kazoo."""
BATCH_BYTES: Final = 900_000
CATCH_UP_PARTITIONS: Final = 6
PARTITIONS_A_TOPIC: Final = 100


def failover(subject: Subject, asking: Asking, kills: int, session_timeout_ms: int) -> list[float]:
    """Seconds from kill -9 of the leader to the next record acknowledged by all in sync, each.

    A session ends so long after its last word, and one comes with each change of a replica: right
    after a follower came back is the worst moment to die.  So the moments are spread evenly over
    the time between two heartbeats, the same ones for each cluster.
    """
    topic = new_topic()
    asking.create(topic, 1)
    between_s = session_timeout_ms / 1000 / HEARTBEATS_A_SESSION
    moments_s = [between_s * (number + 0.5) / kills for number in range(kills)]
    return [_failover(subject, asking, topic, each) for each in moments_s]


def _failover(subject: Subject, asking: Asking, topic: str, in_s: float) -> float:
    batch = frames.batch(1, VALUE_BYTES)
    time.sleep(in_s)
    lost = asking.leader(1, topic)
    until(lambda: asking.is_acknowledged(lost, topic, batch), "a record before the loss")
    subject.brokers[lost].kill()
    began = time.monotonic()
    survivors = [each for each in subject.brokers if each != lost]

    def goes_on() -> bool:
        return any(_takes(asking, each, lost, topic, batch) for each in survivors)

    until(goes_on, "a record after the loss", PROBE_S)
    took = time.monotonic() - began
    _come_back(subject, asking, lost)
    asking.wait_until_in_sync([topic], 1, COUNT)
    return took


def _takes(asking: Asking, asked: int, lost: int, topic: str, batch: bytes) -> bool:
    """Whether the leader that this survivor knows takes a record."""
    leader = asking.leader(asked, topic)
    return leader not in (NOBODY, lost) and asking.is_acknowledged(leader, topic, batch)


def _come_back(subject: Subject, asking: Asking, broker_id: int) -> None:
    subject.brokers[broker_id].start()
    asking.wait_until_members()


def shutdowns(subject: Subject, asking: Asking) -> dict[str, list[float]]:
    """Each broker is stopped and started in turn while a client writes.

    `failed` records; the `longest` that one waited, in ms; how long each `stop` took, in seconds.
    """
    topic = new_topic()
    asking.create(topic, CLIENT_PARTITIONS)
    client = Client(subject.bootstrap)
    over = threading.Event()
    writer = threading.Thread(
        target=keep_pace,
        args=(client, topic, CLIENT_PARTITIONS, lambda _: not over.is_set()),
    )
    writer.start()
    stops = []
    try:
        for broker_id, broker in subject.brokers.items():
            began = time.monotonic()
            broker.stop()
            stops.append(time.monotonic() - began)
            _come_back(subject, asking, broker_id)
            asking.wait_until_in_sync([topic], CLIENT_PARTITIONS, COUNT)
    finally:
        over.set()
        writer.join()
    longest = 1000 * max(client.waits_s, default=float("inf"))
    return {"failed": [float(len(client.failures))], "longest": [longest], "stop": stops}


def catch_up(subject: Subject, asking: Asking, megabytes: int) -> Figures:
    """MB/s of a broker that is given replicas of what two others have."""
    topic = new_topic()
    two = {at: (1, 2) if at % 2 else (2, 1) for at in range(CATCH_UP_PARTITIONS)}
    asking.create_on(topic, two)
    batch = frames.batch(1, BATCH_BYTES)
    count = max(1, round(megabytes * 1e6 / len(batch) / CATCH_UP_PARTITIONS))
    for at, (leader, _) in two.items():
        load.fill(subject.address(leader), topic, batch, count, 1, at, PRODUCE_VERSION)
    asking.wait_until_in_sync([topic], CATCH_UP_PARTITIONS, 2)
    began = time.monotonic()
    asking.reassign(topic, {at: (*on, 3) for at, on in two.items()})
    asking.wait_until_in_sync([topic], CATCH_UP_PARTITIONS, COUNT)
    took = time.monotonic() - began
    return {"bytes": count * CATCH_UP_PARTITIONS * len(batch) / 1e6 / took}


class ManyPartitions:
    """A broker is lost in a cluster with so many partitions."""

    def __init__(self, subject: Subject, asking: Asking, partitions: int) -> None:
        self._subject, self._asking = subject, asking
        self._count = partitions
        self._topics = [new_topic() for _ in range(max(1, partitions // PARTITIONS_A_TOPIC))]
        self._each = partitions // len(self._topics)

    def create(self) -> float:
        """Seconds until all of them are in sync everywhere."""
        began = time.monotonic()
        self._asking.create_many(self._topics, self._each)
        return time.monotonic() - began

    def lose(self, *, controller: bool) -> float:
        """Seconds from kill -9 until each partition is served by who is left.

        The broker that is lost is the controller, or is not.
        """
        ids = {*self._subject.brokers}
        known = self._asking.controller(ids)
        lost = known if controller else min(ids - {known})
        self._subject.brokers[lost].kill()
        began = time.monotonic()
        until(lambda: self._is_whole(ids - {lost}), "all partitions served", MANY_PROBE_S)
        took = time.monotonic() - began
        _come_back(self._subject, self._asking, lost)
        self._asking.wait_until_in_sync(self._topics, self._count, COUNT)
        return took

    def _is_whole(self, survivors: set[int]) -> bool:
        led: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for at, partition in self._asking.partitions(min(survivors), self._topics).items():
            led[partition.leader_id].append(at)
        return (
            sum(map(len, led.values())) == self._count
            and led.keys() <= survivors
            and all(self._asking.are_served(each, led[each]) for each in led)
        )
