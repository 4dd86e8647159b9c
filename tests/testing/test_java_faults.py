"""Faults that befall Apache Kafka's own clients, and what those make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kwire.conformance.pytest_apache import JavaClass
from kwire.testing import Fault, Kafka, Record, Topic

pytestmark = [pytest.mark.java, pytest.mark.slow]

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
QUICK = {"retry.backoff.ms": "20", "reconnect.backoff.ms": "20"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def kafka(shared: Kafka) -> Kafka:
    shared.reset()
    return shared


def properties(of: Mapping[str, str]) -> list[str]:
    return [each for item in of.items() for each in ("--command-property", "=".join(item))]


def all_happened(faults: list[Fault]) -> None:
    for fault in faults:
        fault.assert_happened()


def add(kafka: Kafka, *rules: Mapping[str, Any]) -> list[Fault]:
    return [kafka.faults.add(**rule) for rule in rules]


def test_a_producer_writes_each_record_once_in_order(kafka: Kafka, java_class: JavaClass) -> None:
    """It is idempotent unless it is told otherwise, and sends with acks=all."""
    topic = kafka.create_topic("t")
    about = {"api": "Produce", "topic": topic.name, "times": 1}
    faults = add(
        kafka,
        {"preset": "stale-metadata", "topic": topic.name, "times": 1},
        {"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1},
        {**about, "error": "NOT_LEADER_OR_FOLLOWER"},
        {**about, "disconnect": True},
        {**about, "disconnect": True, "carried_out": True},
        {**about, "error": "KAFKA_STORAGE_ERROR"},
        {**about, "error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "carried_out": True},
        {**about, "truncate": 9},
        {**about, "throttle_ms": 50},
        {**about, "delay_ms": 50, "carried_out": True},
    )
    values = [str(number) for number in range(300)]
    small = {"batch.size": "200", "linger.ms": "0", **QUICK}
    given = ["--bootstrap-server", kafka.bootstrap, "--topic", topic.name, *properties(small)]
    done = java_class(PRODUCER, given, stdin="\n".join(values) + "\n")
    assert done.returncode == 0, done.stderr
    topic.assert_holds(values)
    all_happened(faults)


def test_a_consumer_reads_each_record_once_and_commits(kafka: Kafka, java_class: JavaClass) -> None:
    topic = kafka.create_topic("t", partitions=3)
    topic.seed([Record(str(number), partition=number % 3) for number in range(60)])
    of_group = {"group": "g", "times": 1}
    faults = add(
        kafka,
        {"api": "FindCoordinator", "error": "COORDINATOR_NOT_AVAILABLE", "times": 1},
        {**of_group, "preset": "coordinator-loading", "api": "JoinGroup"},
        {**of_group, "api": "SyncGroup", "error": "REBALANCE_IN_PROGRESS"},
        {**of_group, "api": "OffsetFetch", "error": "NOT_COORDINATOR"},
        {**of_group, "api": "OffsetCommit", "error": "NOT_COORDINATOR"},
        {"preset": "leader-moved", "api": "ListOffsets", "topic": topic.name, "times": 1},
        {"preset": "leader-moved", "api": "Fetch", "topic": topic.name, "partition": 1, "times": 1},
        {"api": "Fetch", "topic": topic.name, "truncate": 30, "times": 1},
        {"api": "Fetch", "topic": topic.name, "disconnect": True, "times": 1},
    )
    small = {"max.poll.records": "5", "fetch.max.wait.ms": "50", **QUICK}
    given = [
        "--bootstrap-server", kafka.bootstrap, "--topic", topic.name, "--group", "g",
        "--from-beginning", "--max-messages", "60", *properties(small),
    ]  # fmt: skip
    done = java_class(CONSUMER, given)
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(60))
    kafka.wait_until_consumed("g", topic)
    all_happened(faults)


@pytest.mark.long
def test_a_transactional_producer_that_is_fenced(kafka: Kafka, java_class: JavaClass) -> None:
    topic = kafka.create_topic("t")
    faults = add(kafka, {"api": "EndTxn", "transactional_id": "x", "error": "PRODUCER_FENCED"})
    done = _transactions(kafka, java_class, topic)
    assert "ProducerFencedException" in done
    topic.assert_holds([], committed=True)
    all_happened(faults)


@pytest.mark.long
def test_transactions_survive_a_coordinator_that_moves(kafka: Kafka, java_class: JavaClass) -> None:
    topic = kafka.create_topic("t")
    about = {"transactional_id": "x", "times": 1}
    faults = add(
        kafka,
        {**about, "preset": "coordinator-loading", "api": "InitProducerId"},
        {**about, "api": "EndTxn", "error": "CONCURRENT_TRANSACTIONS"},
        {**about, "api": "EndTxn", "error": "NOT_COORDINATOR"},
        {**about, "api": "EndTxn", "disconnect": True, "carried_out": True},
    )
    done = _transactions(kafka, java_class, topic)
    assert "100 records sent" in done, done
    assert len(topic.records(committed=True)) == 100
    all_happened(faults)


def _transactions(kafka: Kafka, java_class: JavaClass, topic: Topic) -> str:
    """What is said of 100 records in transactions of some ms."""
    given = [
        "--bootstrap-server", kafka.bootstrap, "--topic", topic.name, "--num-records", "100",
        "--record-size", "10", "--throughput", "500", "--transactional-id", "x",
        "--transaction-duration-ms", "20", *properties(QUICK),
    ]  # fmt: skip
    done = java_class(PERFORMANCE, given)
    return done.stdout + done.stderr
