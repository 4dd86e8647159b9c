"""Mixed clusters of kwire and Apache Kafka 3.9.2 brokers on one ZooKeeper."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from kwire.client.cluster import Cluster
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import BrokerProcess, ZooKeeperProcess
from kwire.testing.hosting.ports import free_port
from tests.waiting import PATIENCE_S, until, zookeeper_client

SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "120000",  # who stands still for a moment stays a member
}

KWIRE, APACHE = "kwire", "apache"

AnyBroker: TypeAlias = BrokerProcess | ZooKeeperBroker
State: TypeAlias = tuple[int, tuple[int, ...], frozenset[int]]
"""Leader, replicas and in-sync replicas of a partition."""


class Mixed:
    """Brokers of the given kinds, with ids from 1 on; none of them runs yet."""

    def __init__(
        self,
        zookeeper: ZooKeeperProcess,
        directory: Path,
        chroot: str,
        kinds: Sequence[str],
        settings: Mapping[str, str],
        disks: Sequence[str],
        own: Callable[[int, int], Mapping[str, str]] = lambda _broker_id, _port: {},
    ) -> None:
        self._own = own
        self._zookeeper, self._chroot = zookeeper, chroot
        self._directory, self._settings, self._disks = directory, settings, disks
        self.brokers = {number: self._made(number, kind) for number, kind in enumerate(kinds, 1)}
        self.down = {*self.brokers}

    def _made(self, broker_id: int, kind: str, port: int = 0) -> AnyBroker:
        directory, connect = self._directory / str(broker_id), self._zookeeper.connect(self._chroot)
        log_dirs = ",".join(str(directory / disk) for disk in self._disks)
        port = port or free_port()
        settings = {"log.dirs": log_dirs, **self._settings, **self._own(broker_id, port)}
        if kind == APACHE:
            return ZooKeeperBroker(directory, connect, broker_id, port=port, settings=settings)
        own = {"broker.id": str(broker_id), "zookeeper.connect": connect}
        return BrokerProcess(directory, {**settings, **own}, port=port)

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

    def become(self, broker_id: int, kind: str) -> None:
        """Replace a stopped broker by one of another kind, with the same data, id and port."""
        self.brokers[broker_id] = self._made(broker_id, kind, self.brokers[broker_id].port)

    def client(self, broker_id: int) -> Cluster:
        """A client that asks this broker first."""
        return Cluster(self.address(broker_id), timeout_s=PATIENCE_S)

    def lead(self, broker_id: int) -> None:
        """Make this broker the controller: the others are paused during the election."""
        others = [self.brokers[number] for number in self.up if number != broker_id]
        if self.controllers() != {broker_id}:
            for each in others:
                each.pause()
            with zookeeper_client(self._zookeeper.connect(self._chroot)) as client:
                epoch = client.get("/controller_epoch")[0]
                client.delete("/controller")
                until(lambda: client.get("/controller_epoch")[0] != epoch, "elected")
            for each in others:
                each.resume()
        until(lambda: self.controllers() == {broker_id}, f"led by {broker_id}")
        until(lambda: self._members(broker_id) == {*self.up}, "all are there again")

    def controllers(self) -> set[int]:
        """The controller in each broker's Metadata response."""
        return {self._metadata(number).controller_id for number in self.up}

    def _members(self, broker_id: int) -> set[int]:
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
    def loaded(self, topic: str, partitions: int) -> Iterator[list[str]]:
        """Run an idempotent producer during the block; yields the acknowledged values."""
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


@contextmanager
def mixed(
    zookeeper: ZooKeeperProcess,
    directory: Path,
    chroot: str,
    *kinds: str,
    settings: Mapping[str, str] | None = None,
    later: Sequence[int] = (),
    disks: Sequence[str] = ("data",),
    own: Callable[[int, int], Mapping[str, str]] = lambda _broker_id, _port: {},
) -> Iterator[Mixed]:
    """Running brokers of these kinds, with ids from 1 on, each with `disks` in its directory.

    Those of `later` are left to the test.  `own` are settings by a broker's id and its port.
    """
    given = {**SETTINGS, **(settings or {})}
    cluster = Mixed(zookeeper, directory, chroot, kinds, given, disks, own)
    with ExitStack() as stack:
        # Without a goodbye: what it has to do in a cluster that ends is no part of the test.
        stack.callback(lambda: [broker.kill() for broker in cluster.brokers.values()])
        for number in cluster.brokers.keys() - {*later}:
            cluster.start(number)
        until(lambda: len(cluster.controllers()) == 1, "of one mind on the controller")
        yield cluster
