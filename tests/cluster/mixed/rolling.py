"""Clusters of kwire and Apache Kafka 3.9 brokers on one ZooKeeper, and what is asked of them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata

from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import BrokerProcess

WAIT_S = 180
SESSION_TIMEOUT_MS = 6000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "log.cleaner.enable": "false",  # replicas are compared byte for byte
}

AnyBroker = BrokerProcess | ZooKeeperBroker
KWIRE, APACHE = "kwire", "apache"


class Mixed:
    """Brokers by their ids; `kinds` says what runs as which, and may change between two starts."""

    def __init__(self, directory: Path, connect: str, kinds: Sequence[str]) -> None:
        self.directory = directory
        self._connect = connect
        self.brokers = {
            broker_id: self._made(broker_id, kind, 0) for broker_id, kind in enumerate(kinds, 1)
        }

    def _made(self, broker_id: int, kind: str, port: int) -> AnyBroker:
        directory = self.directory / f"broker-{broker_id}"
        if kind == APACHE:
            return ZooKeeperBroker(
                directory, self._connect, broker_id, port=port, settings=SETTINGS
            )
        own = {"broker.id": str(broker_id), "zookeeper.connect": self._connect}
        return BrokerProcess(directory, {**SETTINGS, **own}, port=port)

    def replace(self, broker_id: int, kind: str) -> None:
        """Another broker from now on, with the same data, id and port; it is not started."""
        old = self.brokers[broker_id]
        self.brokers[broker_id] = self._made(broker_id, kind, old.port)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def data_dirs(self) -> Iterator[Path]:
        for broker_id in self.brokers:
            yield self.directory / f"broker-{broker_id}" / "data"

    def admin(self) -> AdminClient:
        """One that has found the controller: librdkafka may wait for it in vain else."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.list_topics(timeout=WAIT_S)
        return admin

    def controller_id(self) -> int:
        return self.admin().list_topics(timeout=WAIT_S).controller_id

    def described(self, topic: str) -> TopicMetadata:
        return self.admin().list_topics(topic, timeout=WAIT_S).topics[topic]

    def wait_until_members(self) -> None:
        until(lambda: self.admin().list_topics(timeout=WAIT_S).brokers.keys() == {*self.brokers})

    def wait_until_in_sync(self, topic: str) -> None:
        admin = self.admin()
        until(
            lambda: all(
                set(each.isrs) == {*each.replicas} and each.leader >= 0
                for each in admin.list_topics(topic, timeout=WAIT_S)
                .topics[topic]
                .partitions.values()
            )
        )


@contextmanager
def mixed(directory: Path, connect: str, *kinds: str) -> Iterator[Mixed]:
    """A cluster of these kinds; the first one becomes the controller."""
    cluster = Mixed(directory, connect, kinds)
    with ExitStack() as stack:
        stack.callback(lambda: [broker.kill() for broker in cluster.brokers.values()])
        for broker in cluster.brokers.values():
            broker.start()
        cluster.wait_until_members()
        yield cluster


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def produce(cluster: Mixed, topic: str, partitions: int, numbers: Iterable[int]) -> None:
    """A record for each number, acknowledged by all in sync."""
    failed: list[str] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1}
    )

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for number in numbers:
        producer.produce(topic, str(number), partition=number % partitions, on_delivery=told)
    assert producer.flush(WAIT_S) == 0
    assert not failed


def consume(cluster: Mixed, topic: str, partitions: int, count: int) -> list[int]:
    """What is there, in order of the numbers, once that many are."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(message.value() or b"-1") for message in consumer.consume(1000, 0.1)]
    consumer.close()
    return sorted(found)


def digests(cluster: Mixed, topic: str) -> Mapping[str, set[str]]:
    """Of each partition, one for each way that its records lie in the brokers' segments."""
    found: dict[str, set[str]] = {}
    for data in cluster.data_dirs():
        for folder in sorted(data.glob(f"{topic}-*")):
            digest = hashlib.sha256()
            for segment in sorted(folder.glob("*.log")):
                digest.update(segment.read_bytes().rstrip(b"\0"))  # Kafka preallocates none
            found.setdefault(folder.name, set()).add(digest.hexdigest())
    return found
