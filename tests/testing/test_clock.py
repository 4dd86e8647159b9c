"""Time that passes at once, and what stock clients and others see of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kwire.client.cluster import Cluster
from kwire.client.groups import describe_group
from kwire.client.membership.classic import GroupMember
from kwire.testing import ControlError, Kafka, Record, Topic
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow
WAIT_S = 120
CLEAN_ANY = {"min.cleanable.dirty.ratio": "0"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    with Kafka({"log.retention.check.interval.ms": "1000"}) as broker:
        yield broker


@pytest.fixture
def kafka(shared: Kafka) -> Kafka:
    shared.reset()
    return shared


def test_clock_is_ahead_by_the_sum_of_all_advances(kafka: Kafka) -> None:
    clock = kafka.clock
    assert clock.ahead_ms == 0
    assert abs(clock.now_ms - time.time() * 1000) < 60_000
    clock.advance(days=1, hours=1, minutes=1, seconds=1.5)
    clock.advance(seconds=0.5)
    assert clock.ahead_ms == (25 * 3600 + 62) * 1000
    assert clock.now_ms - time.time() * 1000 > clock.ahead_ms - 60_000
    with pytest.raises(ControlError, match="hundred years"):
        clock.advance(days=40_000)
    kafka.reset()
    assert clock.ahead_ms == 0


def test_log_append_time_follows_the_advanced_clock(kafka: Kafka) -> None:
    topic = kafka.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    kafka.clock.advance(hours=10)
    topic.seed(["v"])
    (record,) = topic.records()
    assert abs(record.timestamp_ms - time.time() * 1000 - 36_000_000) < 120_000


def test_silent_member_is_removed_when_the_clock_passes_its_session_timeout(kafka: Kafka) -> None:
    kafka.create_topic("t")
    with Cluster(kafka.bootstrap, client_id="silent", timeout_s=WAIT_S) as cluster:
        member = GroupMember(cluster, "g", ["t"])
        member.join()
        assert len(describe_group(cluster, "g").members) == 1
        kafka.clock.advance(seconds=20)
        assert len(describe_group(cluster, "g").members) == 1
        kafka.clock.advance(seconds=40)
        found = describe_group(cluster, "g")
        assert (found.state, found.members) == ("Empty", [])


def test_stock_consumer_rejoins_after_the_clock_advances_an_hour(kafka: Kafka) -> None:
    topic = kafka.create_topic("t")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    topic.seed(["1"])
    assert read_one(consumer) == b"1"
    consumer.commit(asynchronous=False)
    kafka.clock.advance(hours=1)
    topic.seed(["2"])
    assert read_one(consumer) == b"2"
    deadline = time.monotonic() + WAIT_S
    while not committed(consumer):
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    consumer.close()
    assert kafka.lag("g") == {"t": 0}


def read_one(consumer: Consumer) -> bytes | None:
    deadline = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and not message.error():
            return message.value()


def committed(consumer: Consumer) -> bool:
    """False where a rebalance is on its way."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return False
    return True


def test_open_transaction_is_aborted_when_the_clock_passes_its_timeout(kafka: Kafka) -> None:
    topic = kafka.create_topic("t")
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("t", "open")
    assert producer.flush(WAIT_S) == 0
    topic.seed(["plain"])
    kafka.clock.advance(seconds=30)
    topic.assert_holds([], committed=True)
    kafka.clock.advance(seconds=60)
    topic.assert_holds(["plain"], committed=True, within_s=WAIT_S)
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)


def test_records_are_deleted_when_the_clock_passes_their_retention(kafka: Kafka) -> None:
    topic = kafka.create_topic("t", configs={"retention.ms": "3600000"})
    topic.seed(["old"])
    kafka.clock.advance(minutes=50)
    topic.seed([Record("new", timestamp_ms=kafka.clock.now_ms)])
    topic.assert_holds(["old", "new"])
    kafka.clock.advance(hours=2)
    topic.assert_holds([], within_s=WAIT_S)


def test_record_is_compacted_after_its_maximum_lag(kafka: Kafka) -> None:
    """`max.compaction.lag.ms` alone decides: no dirty ratio is above 1."""
    settings = {"max.compaction.lag.ms": "7200000", "min.cleanable.dirty.ratio": "1"}
    topic = compacted_topic(kafka, **settings)
    seed_now(kafka, topic, "k", "old")
    seed_now(kafka, topic, "k", "new")
    kafka.clock.advance(minutes=110)
    seed_now(kafka, topic, "other", "in the same segment")
    kafka.clock.advance(minutes=5)
    topic.assert_holds(["old", "new", "in the same segment"])
    kafka.clock.advance(minutes=10)
    seed_now(kafka, topic, "other", "in a new segment")  # the lag rolls the active segment
    kafka.clock.advance(minutes=1)  # log.cleaner.backoff.ms is 15 s
    topic.assert_holds(["new", "in the same segment", "in a new segment"], within_s=WAIT_S)


def test_record_is_not_compacted_before_its_minimum_lag(kafka: Kafka) -> None:
    lags = {"min.compaction.lag.ms": "3600000", "segment.ms": "600000"}
    topic = compacted_topic(kafka, **lags, **CLEAN_ANY)
    seed_now(kafka, topic, "k", "old")
    seed_now(kafka, topic, "k", "new")
    kafka.clock.advance(minutes=11)
    seed_now(kafka, topic, "other", "in a new segment")
    kafka.clock.advance(minutes=45)
    topic.assert_holds(["old", "new", "in a new segment"])
    kafka.clock.advance(minutes=15)
    topic.assert_holds(["new", "in a new segment"], within_s=WAIT_S)


def test_tombstone_is_removed_after_its_retention(kafka: Kafka) -> None:
    """`delete.retention.ms` counts from the cleaning that first met the tombstone."""
    settings = {"delete.retention.ms": "3600000", "segment.ms": "600000"}
    topic = compacted_topic(kafka, **settings, **CLEAN_ANY)
    seed_now(kafka, topic, "k", "deleted")
    seed_now(kafka, topic, "k", None)
    kafka.clock.advance(minutes=11)
    seed_now(kafka, topic, "other", "kept")
    kafka.clock.advance(minutes=1)
    topic.assert_holds([None, "kept"], within_s=WAIT_S)
    kafka.clock.advance(minutes=65)
    seed_now(kafka, topic, "another", "kept")  # the next cleaning needs a dirty segment
    kafka.clock.advance(minutes=11)
    seed_now(kafka, topic, "third", "kept")
    kafka.clock.advance(minutes=1)
    topic.assert_holds(["kept", "kept", "kept"], within_s=WAIT_S)


def compacted_topic(kafka: Kafka, **settings: str) -> Topic:
    return kafka.create_topic("t", configs={"cleanup.policy": "compact", **settings})


def seed_now(kafka: Kafka, topic: Topic, key: str, value: str | None) -> None:
    """Write a record with the broker's time: cleaning goes by the times of records."""
    topic.seed([Record(value, key=key, timestamp_ms=kafka.clock.now_ms)])


def test_clock_command_shows_advances_and_holds_the_clock(kafka: Kafka) -> None:
    def run(*arguments: str) -> str:
        done = run_kwire("clock", *arguments, "--control", f"127.0.0.1:{kafka.control_port}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("show").endswith(", 0 s ahead\n")
    assert run("advance", "90m").endswith(", 5400 s ahead\n")
    assert json.loads(run("show", "--json"))["ahead_ms"] == 5_400_000
