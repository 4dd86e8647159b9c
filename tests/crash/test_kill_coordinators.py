"""kill -9 of coordinators amid transactions and in groups, in a cluster of processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.groups.java import partition_for
from tests.cli.test_several import WAIT_S, Several, until

pytestmark = pytest.mark.slow

OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    topics = ["offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3"]
    options = [f"--set={each}" for each in ["min.insync.replicas=2", *topics]]
    made = Several(tmp_path_factory.mktemp("cluster"), *options)
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.fixture
def several(cluster: Several, unique: str) -> Iterator[Several]:
    """All three brokers, and a topic of the test's own that they have."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [NewTopic(unique, PARTITIONS, 3)]
    for made in admin.create_topics(wanted, operation_timeout=WAIT_S).values():
        made.result(WAIT_S)
    committed(cluster, unique)  # makes the groups' topic, which takes all three
    yield cluster
    for broker in [each for each, pid in cluster.pids.items() if not is_alive(pid)]:
        start_again(cluster, broker)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def coordinator_of(cluster: Several, topic: str, key: str) -> int:
    """The broker that coordinates a group or a transactional id."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    return partitions[partition_for(key, len(partitions))].leader


def kill(cluster: Several, broker: int) -> None:
    os.kill(cluster.pids[broker], signal.SIGKILL)
    cluster.wait_for(f"broker {broker} was ended by SIGKILL")


def start_again(cluster: Several, broker: int) -> None:
    said = len(cluster.said)
    cluster.process.send_signal(signal.SIGHUP)
    cluster.wait_for(f"broker {broker} is ready", after=said)


def transactional(cluster: Several, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(WAIT_S)
    return producer


def write(producer: Producer, topic: str, value: str) -> None:
    """The value to each partition, in the transaction if there is one."""
    for index in range(PARTITIONS):
        producer.produce(topic, value, partition=index)
    producer.flush(WAIT_S)


def committed(cluster: Several, topic: str) -> list[str]:
    """What a reader of committed records is shown, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "error_cb": lambda _: None,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found.append((message.value() or b"").decode())
    consumer.close()
    return sorted(found)


def test_a_transaction_goes_on_without_its_coordinator(several: Several, unique: str) -> None:
    """It is killed before the end, and the next one before the markers are everywhere."""
    producer = transactional(several, unique)
    producer.begin_transaction()
    write(producer, unique, "aborted")
    producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    write(producer, unique, "committed")
    first = coordinator_of(several, STATE, unique)
    kill(several, first)
    producer.commit_transaction(WAIT_S)
    until(lambda: committed(several, unique) == ["committed"] * PARTITIONS)
    start_again(several, first)
    second = coordinator_of(several, STATE, unique)
    producer.begin_transaction()
    write(producer, unique, "later")
    kill(several, second)
    producer.commit_transaction(WAIT_S)
    expected = ["committed"] * PARTITIONS + ["later"] * PARTITIONS
    until(lambda: committed(several, unique) == expected)


def test_an_open_transaction_is_aborted_by_the_next_coordinator(
    several: Several, unique: str
) -> None:
    """Its producer died with the coordinator; the one that comes after it has it aborted."""
    producer = transactional(several, unique)
    producer.begin_transaction()
    write(producer, unique, "lost")
    kill(several, coordinator_of(several, STATE, unique))
    successor = transactional(several, unique)
    successor.begin_transaction()
    write(successor, unique, "kept")
    successor.commit_transaction(WAIT_S)
    until(lambda: committed(several, unique) == ["kept"] * PARTITIONS)


def test_a_group_goes_on_without_its_coordinator(several: Several, unique: str) -> None:
    """Its member consumes and commits where the next coordinator is."""
    consumer = Consumer(
        {
            "bootstrap.servers": several.bootstrap,
            "group.id": unique,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([unique])
    producer = Producer({"bootstrap.servers": several.bootstrap, "acks": "all"})
    dead = 0
    for number in range(3):
        write(producer, unique, str(number))
        for _ in range(PARTITIONS):
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            assert message.value() == b"%d" % number
        until(lambda: commits(consumer))
        places = [TopicPartition(unique, index) for index in range(PARTITIONS)]
        assert [each.offset for each in consumer.committed(places, WAIT_S)] == [number + 1] * 3
        if dead:
            start_again(several, dead)
        dead = coordinator_of(several, OFFSETS, unique)
        kill(several, dead)
    consumer.close()


def commits(consumer: Consumer) -> bool:
    """Whether what was consumed is committed: the coordinator may be on its way."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as problem:
        if not problem.args[0].retriable():
            raise
        return False
    return True
