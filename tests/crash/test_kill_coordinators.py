"""Tests that transactions and groups continue after kill -9 of their coordinators in a cluster."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from subprocess import CompletedProcess

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.groups.java import partition_for
from kwire.testing.hosting.ending import process_exists
from tests.cli.hosting.test_several import WAIT_S, Several
from tests.polling import until

pytestmark = pytest.mark.slow

JavaClass = Callable[..., CompletedProcess[str]]
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
PARTITIONS = 3
NEWS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
)
"""Errors that a consumer reports and recovers from by itself."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    topics = ["offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3"]
    options = [f"--set={setting}" for setting in ["min.insync.replicas=2", *topics]]
    started = Several(tmp_path_factory.mktemp("cluster"), *options)
    yield started
    started.process.kill()
    started.process.communicate()


@pytest.fixture
def several(cluster: Several, unique: str) -> Iterator[Several]:
    """A running cluster of three brokers, with a topic for this test on all of them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [NewTopic(unique, PARTITIONS, 3)]
    for creation in admin.create_topics(wanted, operation_timeout=WAIT_S).values():
        creation.result(WAIT_S)
    committed(cluster, unique)  # makes the groups' topic, which takes all three
    yield cluster
    for broker in [number for number, pid in cluster.pids.items() if not process_exists(pid)]:
        start_again(cluster, broker)


def coordinator_of(cluster: Several, topic: str, key: str) -> int:
    """The broker that coordinates a group or a transactional id, once it is one that runs."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    leaders = [0]

    def is_running() -> bool:
        partitions = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        if partitions:  # one that was just started may not have heard of them
            leaders[0] = partitions[partition_for(key, len(partitions))].leader
        return leaders[0] in cluster.pids and process_exists(cluster.pids[leaders[0]])

    until(is_running)
    return leaders[0]


def kill(cluster: Several, broker: int) -> None:
    position = len(cluster.said)
    os.kill(cluster.pids[broker], signal.SIGKILL)
    cluster.wait_for(f"broker {broker} was ended by SIGKILL", after=position)


def start_again(cluster: Several, broker: int) -> None:
    position = len(cluster.said)
    cluster.process.send_signal(signal.SIGHUP)
    cluster.wait_for(f"broker {broker} is ready", after=position)


def transactional(cluster: Several, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(WAIT_S)
    return producer


def write(producer: Producer, topic: str, value: str) -> None:
    """Write the value to each partition, in the producer's transaction if there is one."""
    for index in range(PARTITIONS):
        producer.produce(topic, value, partition=index)
    producer.flush(WAIT_S)


def committed(cluster: Several, topic: str) -> list[str]:
    """The values that a reader of committed records gets, up to the end of each partition."""
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
    values: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            values.append((message.value() or b"").decode())
    consumer.close()
    return sorted(values)


def test_transaction_continues_after_its_coordinator_is_killed(
    several: Several, unique: str
) -> None:
    """It is killed before the commit, and the next one before all markers are written."""
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


def test_open_transaction_is_aborted_by_the_next_coordinator(several: Several, unique: str) -> None:
    """Its producer ended with the coordinator; the next coordinator aborts it."""
    producer = transactional(several, unique)
    producer.begin_transaction()
    write(producer, unique, "lost")
    kill(several, coordinator_of(several, STATE, unique))
    successor = transactional(several, unique)
    successor.begin_transaction()
    write(successor, unique, "kept")
    successor.commit_transaction(WAIT_S)
    until(lambda: committed(several, unique) == ["kept"] * PARTITIONS)


def test_group_continues_after_its_coordinator_is_killed(several: Several, unique: str) -> None:
    """Its member goes on consuming and committing with the next coordinator."""
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
            assert next_value(consumer) == b"%d" % number
        until(lambda: commits(consumer))
        places = [TopicPartition(unique, index) for index in range(PARTITIONS)]
        assert [position.offset for position in consumer.committed(places, WAIT_S)] == [
            number + 1
        ] * 3
        if dead:
            start_again(several, dead)
        dead = coordinator_of(several, OFFSETS, unique)
        kill(several, dead)
    consumer.close()


def next_value(consumer: Consumer) -> bytes | None:
    """The value of the next record; a broker may not know the topic yet, or be down, meanwhile."""
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None
        error = message.error()
        if error is None:
            return message.value()
        assert error.retriable() or error.code() in NEWS, error


def commits(consumer: Consumer) -> bool:
    """Whether the position is committed; the coordinator may be moving."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as problem:
        if not problem.args[0].retriable():
            raise
        return False
    return True


COPIED = 4000
"""Records in each of two partitions; copying them takes half a minute with the kills."""
COPYING_TIMEOUT_S = 600


def copier(several: Several, topic: str, index: int) -> list[str]:
    """Arguments of Kafka's copier: one partition to another topic, 20 records per transaction."""
    given = {
        "transactional-id": f"{topic}-{index}",
        "broker-list": several.bootstrap,
        "input-topic": topic,
        "input-partition": index,
        "output-topic": f"{topic}-copy",
        "transaction-size": 20,
        "max-messages": COPIED,
        "consumer-group": f"{topic}-group-{index}",
        "transaction-timeout": 20_000,
    }
    named = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return [*named, "--use-group-metadata", "--enable-random-aborts"]


def fill(several: Several, topic: str) -> list[str]:
    """Write records to two partitions of a topic, and create the topics of the copies."""
    admin = AdminClient({"bootstrap.servers": several.bootstrap})
    copies = [NewTopic(f"{topic}-copy", PARTITIONS, 3)]
    for creation in admin.create_topics(copies, operation_timeout=WAIT_S).values():
        creation.result(WAIT_S)
    producer = Producer({"bootstrap.servers": several.bootstrap, "enable.idempotence": True})
    values = [str(number) for number in range(2 * COPIED)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    return sorted(values)


def kill_until_done(
    several: Several, rng: random.Random, jobs: list[Future[CompletedProcess[str]]]
) -> int:
    """Kill one broker after the other and restart each; the number of kills."""
    kills = 0
    while not all(job.done() for job in jobs):
        broker = rng.choice(sorted(several.pids))
        kill(several, broker)
        start_again(several, broker)
        kills += 1
        for job in jobs:  # let them get somewhere
            wait([job], timeout=5)
    return kills


@pytest.mark.java
@pytest.mark.long
def test_java_copier_copies_exactly_once_during_broker_kills(
    several: Several, unique: str, java_class: JavaClass, rng: random.Random
) -> None:
    expected = fill(several, unique)
    name = "org.apache.kafka.tools.TransactionalMessageCopier"
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(
                java_class, name, copier(several, unique, index), timeout_s=COPYING_TIMEOUT_S
            )
            for index in range(2)
        ]
        assert kill_until_done(several, rng, jobs) > 0
        for job in jobs:
            done = job.result()
            assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: committed(several, f"{unique}-copy") == expected)
