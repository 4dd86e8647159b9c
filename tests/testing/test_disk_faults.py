"""Disks that are full, slow or broken under the log itself, and what a stock client sees of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from kwire.testing import Kafka, Topic

pytestmark = pytest.mark.slow

QUICK = {"log_level": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "linger.ms": 0}
WAIT_S = 120


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def kafka(shared: Kafka) -> Kafka:
    shared.reset()
    return shared


def producer(kafka: Kafka, **settings: str | int | bool) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap, **QUICK, **settings})


def send(sender: Producer, topic: Topic, *values: str | bytes) -> None:
    for value in values:
        sender.produce(topic.name, value)
        assert sender.flush(WAIT_S) == 0


def test_batch_refused_by_a_full_disk_is_written_once_after_space_returns(kafka: Kafka) -> None:
    """Half of each batch gets there, and is taken back."""
    topic = kafka.create_topic("t")
    sender = producer(kafka, **{"enable.idempotence": True})
    send(sender, topic, "a")
    with kafka.faults.add(disk="full", on="append", topic="t") as full:
        sender.produce("t", "b")
        happened = full.assert_happened(within_s=WAIT_S)[0]
        assert topic.records()[1:] == []
    assert sender.flush(WAIT_S) == 0
    topic.assert_holds(["a", "b"])
    assert happened["disk"] == "full"
    assert happened["file"] == "t-0/00000000000000000000.log"
    kafka.kill()
    kafka.start()
    topic.assert_holds(["a", "b"])


@pytest.mark.parametrize("on", ["roll", "index", "snapshot"])
def test_produce_succeeds_after_a_full_disk_refuses_the_next_segment(kafka: Kafka, on: str) -> None:
    topic = kafka.create_topic(
        "t", configs={"segment.bytes": "1048576", "index.interval.bytes": "0"}
    )
    sender = producer(kafka, **{"enable.idempotence": True})
    kafka.faults.add(disk="full", on=on, topic="t", times=3)
    values = [bytes([number]) * 400_000 for number in range(9)]
    send(sender, topic, *values)
    assert [each["on"] for each in kafka.faults.happened] == [on] * 3
    assert [record.value for record in topic.records()] == values
    kafka.shut_down()
    kafka.start()
    assert [record.value for record in topic.records()] == values


def test_broker_serves_and_recovers_while_checkpoints_cannot_be_written(kafka: Kafka) -> None:
    topic = kafka.create_topic("t")
    full = kafka.faults.add(disk="full", on="checkpoint")
    send(producer(kafka), topic, "a")
    kafka.clock.advance(minutes=2)  # log.flush.offset.checkpoint.interval.ms is one
    full.assert_happened(within_s=WAIT_S)
    send(producer(kafka), topic, "b")
    kafka.kill()
    kafka.start()
    topic.assert_holds(["a", "b"])


def test_topic_refused_by_a_full_disk_is_opened_after_space_returns(kafka: Kafka) -> None:
    """It is there, and opened as soon as there is room: what is written meanwhile waits."""
    full = kafka.faults.add(disk="full", on="roll", topic="t", partition=0)
    topic = kafka.create_topic("t")
    sender = producer(kafka)
    sender.produce("t", "a")
    full.assert_happened(within_s=WAIT_S)
    full.remove()
    assert sender.flush(WAIT_S) == 0
    topic.assert_holds(["a"])


def test_slow_fsync_delays_only_the_requests_that_wait_for_it(kafka: Kafka) -> None:
    """What another topic is sent meanwhile takes less, but on a machine that is busy for as long.

    Where that loop was held up, it is held up however long the disk takes.
    """
    synced = kafka.create_topic("synced", configs={"flush.messages": "1"})
    other = kafka.create_topic("other")
    sender = producer(kafka)
    send(sender, synced, "a")
    send(sender, other, "a")
    for delay_s in (1.5, 6, 24):
        slow = kafka.faults.add(
            disk="slow", on="fsync", topic="synced", delay_ms=int(delay_s * 1000), times=1
        )
        start = time.monotonic()
        sender.produce("synced", "b")
        sender.poll(0)
        slow.assert_happened(within_s=WAIT_S)
        send(producer(kafka), other, "b")
        before = time.monotonic() - start
        assert sender.flush(WAIT_S) == 0
        assert time.monotonic() - start >= delay_s
        if before < delay_s:
            return
    pytest.fail("the loop did not go on meanwhile")


def test_slow_disk_delays_an_append(kafka: Kafka) -> None:
    topic = kafka.create_topic("t")
    sender = producer(kafka)
    send(sender, topic, "a")
    kafka.faults.add("slow-disk", topic="t", on="append", delay_ms=300, times=1)
    start = time.monotonic()
    send(sender, topic, "b")
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize(("disk", "on"), [("failed", "append"), ("full", "fsync")])
def test_broker_ends_when_its_only_disk_fails(kafka: Kafka, disk: str, on: str) -> None:
    """Also where an fsync finds no room: what it was to save may be lost."""
    topic = kafka.create_topic("t", configs={"flush.messages": "1"})
    sender = producer(kafka, **{"enable.idempotence": True})
    send(sender, topic, "a")
    kafka.faults.add(disk=disk, on=on, topic="t")
    errors: list[KafkaError | None] = []
    sender.produce("t", "b", on_delivery=lambda error, _: errors.append(error))
    deadline = time.monotonic() + WAIT_S
    while kafka.running:
        assert time.monotonic() < deadline
        sender.poll(0.01)
    assert "all log directories" in kafka.log
    kafka.start()
    assert sender.flush(WAIT_S) == 0
    assert errors == [None]
    topic.assert_holds(["a", "b"])
