"""A query from Kafka to Kafka goes on while each broker of its cluster is lost in turn.

Spark's sink writes with Kafka's idempotent producer, so that what it sends again after a loss is
there once; only a task that fails writes twice, and none does here.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from kwire.conformance.kraft_cluster import APACHE, KWIRE, KRaftCluster
from kwire.testing import ClusterProcess, ZooKeeperProcess
from tests.spark.connector.cluster import TIMEOUT_S, Cluster, wait_until
from tests.spark.connector.reading import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow, pytest.mark.long]

SETTINGS = {"zookeeper.session.timeout.ms": "6000", "min.insync.replicas": "2"}
PARTITIONS = 3
MORE = 100
"""Records for the query that is started again on its checkpoint."""


class Writer:
    """Writes numbers to a topic, one after the other, until the block ends."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self._topic = topic
        self._failed: list[KafkaError] = []
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failed.append(error)

    def _write(self) -> None:
        for number in itertools.count():
            if self._over.is_set():
                break
            self.send(number)
            self._producer.poll(0.005)

    def send(self, number: int) -> None:
        self._producer.produce(
            self._topic,
            str(number),
            partition=number % PARTITIONS,
            on_delivery=self._delivered,
        )

    def goes_on(self) -> None:
        """Wait until one more record is acknowledged."""
        before = self.acknowledged
        wait_until(lambda: self.acknowledged > before, "writing goes on")

    def finish(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0
        assert not self._failed

    @contextmanager
    def writing(self) -> Iterator[None]:
        thread = threading.Thread(target=self._write)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        self.finish()


class Copy:
    """The query, which copies all records of a topic to another one."""

    def __init__(self, kafka: Kafka, bootstrap: str, topics: tuple[str, str], at: Path) -> None:
        source, self._sink = topics
        self._frame = kafka.stream({"subscribe": source}).select("key", "value")
        self._options = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": str(at)}

    def start(self, *, once: bool = False) -> StreamingQuery:
        writer = self._frame.writeStream.format("kafka").options(**self._options)
        writer = writer.option("topic", self._sink)
        return (writer.trigger(availableNow=True) if once else writer).start()


class Arrivals:
    """Reads a topic continuously, whichever broker leads it, and counts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
        self._consumer.assign([TopicPartition(topic, at, 0) for at in range(PARTITIONS)])

    def are(self, count: int) -> bool:
        """Whether `count` records have arrived."""
        came = self._consumer.consume(10_000, 0.1)
        self.count += sum(message.error() is None for message in came)
        return self.count >= count

    def close(self) -> None:
        self._consumer.close()


def create(cluster: Cluster, *topics: str) -> None:
    """Create a topic with a replica on each broker."""
    new = [NewTopic(topic, PARTITIONS, replication_factor=3) for topic in topics]
    for made in cluster.admin.create_topics(new).values():
        made.result(TIMEOUT_S)


def is_in_sync(cluster: Cluster, topic: str) -> bool:
    partitions = cluster.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    return all(len(each.isrs) == 3 for each in partitions.values())


def test_exactly_once_copy_holds_though_each_broker_is_lost(
    spark: SparkSession, zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str
) -> None:
    with ClusterProcess(tmp_path, zookeeper.connect(f"/{unique}"), settings=SETTINGS) as brokers:
        copy_while_brokers_are_lost(spark, brokers, tmp_path, unique)


@pytest.mark.parametrize("kinds", [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)], ids="-".join)
def test_exactly_once_copy_holds_though_each_broker_of_a_mixed_cluster_is_lost(
    spark: SparkSession,
    apache_kafka_libs: Path,
    tmp_path: Path,
    unique: str,
    kinds: tuple[str, ...],
) -> None:
    settings = {"min.insync.replicas": "2"}
    with KRaftCluster(tmp_path, kinds, settings=settings) as brokers:
        copy_while_brokers_are_lost(spark, brokers, tmp_path, unique)


def copy_while_brokers_are_lost(
    spark: SparkSession, brokers: ClusterProcess | KRaftCluster, folder: Path, unique: str
) -> None:
    """Kill each broker and start it again while a query copies; check that nothing is doubled."""
    cluster, kafka = Cluster(brokers.bootstrap), Kafka(spark, brokers.bootstrap)
    topics = source, sink = f"{unique}-source", f"{unique}-sink"
    create(cluster, *topics)
    copy = Copy(kafka, brokers.bootstrap, topics, folder / "checkpoint")
    writer = Writer(brokers.bootstrap, source)
    arrivals = Arrivals(brokers.bootstrap, sink)
    query = copy.start()

    def has_come(count: int) -> bool:
        """Whether `count` records are in the sink."""
        assert query.isActive, query.exception()
        return arrivals.are(count)

    with writer.writing():
        wait_until(partial(has_come, 100), "the first records")
        for lost in brokers.brokers:
            brokers.brokers[lost].kill()
            brokers.wait_until_members()
            writer.goes_on()
            now = writer.acknowledged
            wait_until(partial(has_come, now), f"the query goes on without {lost}")
            brokers.brokers[lost].start()
            brokers.wait_until_members()
            for topic in topics:
                wait_until(partial(is_in_sync, cluster, topic), f"{lost} has all")
    count = writer.acknowledged
    wait_until(partial(has_come, count), "the last records")
    query.processAllAvailable()  # the checkpoint has the last batch, too: it is not made again
    query.stop()
    arrivals.close()
    assert cluster.numbers(source) == [*range(count)]
    assert cluster.numbers(sink) == [*range(count)]

    for number in range(count, count + MORE):
        writer.send(number)
    writer.finish()
    assert copy.start(once=True).awaitTermination(int(TIMEOUT_S))
    assert cluster.numbers(sink) == [*range(count + MORE)]
