"""Brokers of a cluster: what they report about topics, and clients that write and read."""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kwire.client.cluster import Cluster
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.conformance.kraft_cluster import KRaftNode
from kwire.testing import BrokerProcess
from tests.waiting import PATIENCE_S, until

AnyBroker: TypeAlias = BrokerProcess | ZooKeeperBroker | KRaftNode
State: TypeAlias = tuple[int, tuple[int, ...], frozenset[int]]
"""Leader, replicas and in-sync replicas of a partition."""


LOG = logging.getLogger(__name__)


class Load(list[str]):
    """The acknowledged values of a producer, and the longest times without an acknowledgement."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[object] = []
        self._last: dict[int, float] = {}
        self._gaps: dict[int, float] = {}

    def note(self, error: object, message: Message) -> None:
        """Note a delivery report."""
        if error is not None:
            self.failures.append(error)
            return
        self.append((message.value() or b"").decode())
        partition, now = message.partition() or 0, time.monotonic()
        gap = now - self._last.get(partition, now)
        self._gaps[partition] = max(gap, self._gaps.get(partition, 0.0))
        self._last[partition] = now

    @property
    def partitions(self) -> int:
        """The number of partitions that have an acknowledged value."""
        return len(self._last)

    def wait_for_more(self, count: int) -> None:
        """Wait until `count` more values are acknowledged, some of them on each partition."""
        end, last = len(self) + count, dict(self._last)
        until(
            lambda: len(self) >= end and all(self._last[each] > last[each] for each in last),
            f"{count} more acknowledged",
        )

    def take_gap_s(self) -> float:
        """The longest time without an acknowledgement on any partition since the last call."""
        longest = max(self._gaps.values(), default=0.0)
        self._gaps.clear()
        return longest

    def __str__(self) -> str:
        return f"{len(self)} acknowledged, longest pause {self.take_gap_s():.1f} s"


class WatchedCluster(ABC):
    """Brokers by id, of which some may be down."""

    brokers: Mapping[int, AnyBroker]
    down: set[int]
    """Ids of the brokers that do not run."""

    @abstractmethod
    def become(self, broker_id: int, kind: str) -> None:
        """Replace a stopped broker by one of another kind, with the same data, id and port."""

    def address(self, broker_id: int) -> str:
        broker = self.brokers[broker_id]
        return broker.bootstrap.replace("localhost", "127.0.0.1")

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, self.brokers))

    @property
    def up(self) -> list[int]:
        """Ids of the running brokers."""
        return [number for number in self.brokers if number not in self.down]

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()
        self.down.add(broker_id)

    def stop(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown."""
        self.brokers[broker_id].stop()
        self.down.add(broker_id)

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id].start()
        self.down.discard(broker_id)

    def client(self, broker_id: int) -> Cluster:
        """A client that asks this broker first."""
        return Cluster(self.address(broker_id), timeout_s=PATIENCE_S)

    def members(self, broker_id: int) -> set[int]:
        """The brokers in a broker's Metadata response."""
        return {each.node_id for each in self._metadata(broker_id).brokers}

    def _metadata(self, broker_id: int) -> MetadataResponse:
        with self.client(broker_id) as client:
            reply: MetadataResponse = client.any().call(MetadataRequest(topics=None))
            return reply

    def topic(self, broker_id: int, name: str) -> list[State] | None:
        """The partitions of a topic in a broker's Metadata response; None without the topic."""
        for topic in self._metadata(broker_id).topics:
            if topic.name == name and not topic.error_code:
                ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
                return [
                    (each.leader_id, tuple(each.replica_nodes), frozenset(each.isr_nodes))
                    for each in ordered
                ]
        return None

    def state(self, name: str, index: int = 0) -> State:
        """A partition's state by one of the brokers; without a leader if it does not exist."""
        known = self.topic(self.up[0], name) or []
        return known[index] if index < len(known) else (-1, (), frozenset())

    def all_say(self, name: str, expected: Sequence[State] | None) -> None:
        """Wait until each broker's Metadata response has these states of a topic."""
        wanted = None if expected is None else [*expected]
        until(
            lambda: all(self.topic(number, name) == wanted for number in self.up),
            f"{name} as {wanted}",
        )

    def in_sync(self, name: str, wanted: frozenset[int] | None = None) -> bool:
        """Whether all brokers report this ISR for all partitions of a topic, with leaders in it.

        `wanted` are those in sync; without, all replicas of each partition.
        """
        return all(
            isr == (wanted or frozenset(replicas)) and leader in isr
            for number in self.up
            for leader, replicas, isr in self.topic(number, name) or [(-1, (), frozenset())]
        )

    def produce(self, topic: str, values: Sequence[str], partitions: int) -> None:
        """Produce idempotently; returns when all records are acknowledged with acks=all."""
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value,
                partition=number % partitions,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(PATIENCE_S) == 0
        assert failures == []

    @contextmanager
    def loaded(self, topic: str, partitions: int) -> Iterator[Load]:
        """Run an idempotent producer during the block; yields the acknowledged values.

        Each partition has one when the block begins.
        """
        load = Load()
        over = threading.Event()
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})

        def produce() -> None:
            for number in itertools.count():
                if over.is_set():
                    break
                producer.produce(
                    topic, str(number), partition=number % partitions, on_delivery=load.note
                )
                producer.poll(0.002)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            until(lambda: load.partitions == partitions, "acknowledged on each partition")
            yield load
        finally:
            over.set()
            thread.join()
            left = producer.flush(PATIENCE_S)
        assert (left, load.failures) == (0, [])
        LOG.info("%s: %s", topic, load)

    def end(self, topic: str, index: int) -> int:
        """The high watermark of a partition, counting transaction markers.

        A new leader does not know it at once, so this waits.
        """
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        ends: list[int] = []

        def is_told() -> bool:
            place = TopicPartition(topic, index)
            ends.append(consumer.get_watermark_offsets(place, PATIENCE_S)[1])
            return True

        try:
            until(is_told, "told the end")
        finally:
            consumer.close()
        return ends[0]

    def differing(self, topic: str) -> list[str]:
        """The partitions of a topic whose replicas are not equal byte for byte."""
        digests: dict[str, set[str]] = {}
        for broker in self.brokers.values():
            for folder in (broker.directory / "data").glob(f"{topic}-*"):
                digest = hashlib.sha256()
                for segment in sorted(folder.glob("*.log")):
                    digest.update(segment.name.encode() + segment.read_bytes())
                digests.setdefault(folder.name, set()).add(digest.hexdigest())
        return sorted(name for name, each in digests.items() if len(each) > 1)

    def read(self, topic: str, partitions: int, count: int) -> list[str]:
        """The first `count` values of a topic, in the order of their partitions."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        found: list[tuple[int, str]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append((message.partition() or 0, (message.value() or b"").decode()))
        consumer.close()
        return [value for _, value in sorted(found, key=lambda each: each[0])]

    def values(self, topic: str, partitions: int) -> list[str]:
        """All committed values of a topic, in the order of their partitions.

        Raises AssertionError if a partition cannot be read to its end in PATIENCE_S.
        """
        settings = {"group.id": "reader", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        found: list[tuple[int, str]] = []
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic}: only {sorted(ended)} read to the end"
            for message in consumer.consume(1000, 0.2):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    ended.discard(partition)
                    found.append((partition, (message.value() or b"").decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
        consumer.close()
        return [value for _, value in sorted(found, key=lambda each: each[0])]

    def check_values(self, topic: str, partitions: int, expected: Sequence[str]) -> None:
        """Check that a topic has each of these values once, and nothing else."""
        found = Counter(self.values(topic, partitions))
        lost, doubled = Counter(expected) - found, found - Counter(expected)
        LOG.info("%s: %d lost, %d doubled", topic, lost.total(), doubled.total())
        assert (lost, doubled) == (Counter(), Counter())
