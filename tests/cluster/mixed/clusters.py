"""Clusters of kwire and of Apache Kafka 3.9.2 on one ZooKeeper, for tests."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kazoo.client import KazooClient

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import BrokerProcess, ZooKeeperProcess

PATIENCE_S = 120.0
SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "120000",  # who stands still for a moment stays a member
}

State: TypeAlias = tuple[int, tuple[int, ...], frozenset[int]]
"""Of a partition: leader, replicas, in-sync replicas."""


def until(condition: Callable[[], object], what: str) -> None:
    """Ask again and again; brokers may refuse in between."""
    deadline = time.monotonic() + PATIENCE_S
    seen: object = None
    while time.monotonic() < deadline:
        try:
            seen = condition()
        except ClientError as refusal:
            seen = refusal
        else:
            if seen:
                return
        time.sleep(0.1)
    raise AssertionError(f"not {what} in {PATIENCE_S} s: {seen!r}")


class Mixed:
    """Brokers by their id; all of them run."""

    def __init__(
        self,
        zookeeper: ZooKeeperProcess,
        chroot: str,
        brokers: dict[int, BrokerProcess | ZooKeeperBroker],
    ) -> None:
        self._zookeeper, self._chroot = zookeeper, chroot
        self.brokers = brokers
        self.down: set[int] = set()

    def address(self, broker_id: int) -> str:
        broker = self.brokers[broker_id]
        return broker.bootstrap.replace("localhost", "127.0.0.1")

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, self.brokers))

    @property
    def up(self) -> list[int]:
        """Who runs."""
        return [number for number in self.brokers if number not in self.down]

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()
        self.down.add(broker_id)

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id].start()
        self.down.discard(broker_id)

    def client(self, broker_id: int) -> Cluster:
        """One that asks this broker first."""
        return Cluster(self.address(broker_id), timeout_s=PATIENCE_S)

    def lead(self, broker_id: int) -> None:
        """Have this broker be the controller: the others stand still during the election."""
        others = [each for number, each in self.brokers.items() if number != broker_id]
        if self.controllers() != {broker_id}:
            for each in others:
                each.pause()
            client = KazooClient(self._zookeeper.address)
            client.start(timeout=PATIENCE_S)
            epoch = client.get(f"{self._chroot}/controller_epoch")[0]
            client.delete(f"{self._chroot}/controller")
            until(lambda: client.get(f"{self._chroot}/controller_epoch")[0] != epoch, "elected")
            client.stop()
            client.close()
            for each in others:
                each.resume()
        until(lambda: self.controllers() == {broker_id}, f"led by {broker_id}")

    def controllers(self) -> set[int]:
        """Who is the controller, by each broker's Metadata."""
        return {self._metadata(number).controller_id for number in self.up}

    def _metadata(self, broker_id: int) -> MetadataResponse:
        with self.client(broker_id) as client:
            reply: MetadataResponse = client.any().call(MetadataRequest(topics=None))
            return reply

    def topic(self, broker_id: int, name: str) -> list[State] | None:
        """The partitions of a topic, by a broker's Metadata; None where there is no such topic."""
        for topic in self._metadata(broker_id).topics:
            if topic.name == name and not topic.error_code:
                ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
                return [
                    (each.leader_id, tuple(each.replica_nodes), frozenset(each.isr_nodes))
                    for each in ordered
                ]
        return None

    def all_say(self, name: str, expected: Sequence[State] | None) -> None:
        """Wait until each broker's Metadata say so of a topic."""
        wanted = None if expected is None else [*expected]
        until(
            lambda: all(self.topic(number, name) == wanted for number in self.up),
            f"{name} as {wanted}",
        )

    def produce(self, topic: str, values: Sequence[str], partitions: int) -> None:
        """With acks=all: returns when all of them are acknowledged."""
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
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
    def loaded(self, topic: str, partitions: int) -> Iterator[list[str]]:
        """Has a producer write to a topic all the time, idempotently: what was acknowledged."""
        acknowledged: list[str] = []
        failures: list[object] = []

        def note(error: object, message: Message) -> None:
            if error is None:
                acknowledged.append((message.value() or b"").decode())
            else:
                failures.append(error)

        over = threading.Event()
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})

        def produce() -> None:
            for number in itertools.count():
                if over.is_set():
                    break
                producer.produce(
                    topic, str(number), partition=number % partitions, on_delivery=note
                )
                producer.poll(0.002)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            yield acknowledged
        finally:
            over.set()
            thread.join()
            left = producer.flush(PATIENCE_S)
        assert (left, failures) == (0, [])

    def records(self, broker_id: int, topic: str, index: int) -> bytes:
        """What a broker has of a partition, of which there is one segment."""
        directory = self.brokers[broker_id].directory / "data" / f"{topic}-{index}"
        (segment,) = directory.glob("*.log")
        return segment.read_bytes()

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


@contextmanager
def mixed(
    zookeeper: ZooKeeperProcess,
    directory: Path,
    chroot: str,
    *,
    apache: Sequence[int],
    settings: Mapping[str, str] | None = None,
    disks: Sequence[str] = ("data",),
) -> Iterator[Mixed]:
    """Broker 1 is kwire's, `apache` are the others; each has `disks` in its directory."""
    connect = zookeeper.connect(chroot)

    def settings_of(number: int) -> dict[str, str]:
        log_dirs = ",".join(str(directory / str(number) / disk) for disk in disks)
        return {**SETTINGS, "log.dirs": log_dirs, **(settings or {})}

    own = {"broker.id": "1", "zookeeper.connect": connect}
    ours = BrokerProcess(directory / "1", {**settings_of(1), **own})
    brokers: dict[int, BrokerProcess | ZooKeeperBroker] = {1: ours}
    for number in apache:
        brokers[number] = ZooKeeperBroker(
            directory / str(number), connect, number, settings=settings_of(number)
        )
    with ExitStack() as stack:
        for broker in brokers.values():
            # Without a goodbye: what it has to do in a cluster that ends is no part of the test.
            stack.callback(broker.kill)
            broker.start()
        cluster = Mixed(zookeeper, chroot, brokers)
        until(lambda: len(cluster.controllers()) == 1, "of one mind on the controller")
        yield cluster
