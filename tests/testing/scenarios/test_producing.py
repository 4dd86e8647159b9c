"""Faults that befall who writes: each record is there once, in order, or an error has named why."""

from __future__ import annotations

import time

import pytest

from kwire.testing import Kafka, Topic
from tests.testing.scenarios.clients import Clients, assert_refused
from tests.testing.scenarios.scenario import by_all

WAIT_S = 120


@by_all
def test_no_leader_any_more(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add("leader-moved", api="Produce", topic=topic.name, times=2)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    fault.assert_happened(times=2)
    topic.assert_holds(["a"])


@by_all
def test_a_reply_lost_after_the_append(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """The retry is known by its sequence number, and told the first one's offset."""
    fault = kafka.faults.add("lost-reply", api="Produce", topic=topic.name, times=1)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    fault.assert_happened(times=1)
    topic.assert_holds(["a"])


@by_all
def test_a_duplicate_after_a_retry(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Of a producer that is not idempotent."""
    kafka.faults.add("lost-reply", api="Produce", topic=topic.name, times=1)
    assert clients.producer(kafka, idempotent=False, acks="1").send(topic.name, "a") == [1]
    topic.assert_holds(["a", "a"])


@by_all
def test_an_error_that_is_a_lie(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    lie = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    kafka.faults.add(api="Produce", topic=topic.name, error=lie, carried_out=True, times=1)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    topic.assert_holds(["a"])


@by_all
def test_a_truncated_reply(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add(api="Produce", topic=topic.name, truncate=9, times=1)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    fault.assert_happened(times=1)
    topic.assert_holds(["a"])


@by_all
def test_a_throttled_producer(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    producer = clients.producer(kafka)
    fault = kafka.faults.add(api="Produce", topic=topic.name, throttle_ms=700, times=1)
    assert producer.send(topic.name, "a") == [0]
    start = time.monotonic()
    assert producer.send(topic.name, "b") == [1]
    assert time.monotonic() - start > 0.3, "it rests, or is not heard"
    fault.assert_happened(times=1)


@by_all
def test_nobody_answers(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add(api="Produce", topic=topic.name, silence=True, times=1)
    assert clients.producer(kafka, request_timeout_ms=1500).send(topic.name, "a") == [0]
    fault.assert_happened(times=1)
    topic.assert_holds(["a"])


@by_all
def test_a_full_disk(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    producer = clients.producer(kafka)
    with kafka.faults.add("full-disk", topic=topic.name) as full:
        sending = producer.begin("send", topic=topic.name, values=["a"])
        full.assert_happened(within_s=WAIT_S)
        assert topic.records() == []
        assert not sending.is_done
    assert sending.result() == [0]
    topic.assert_holds(["a"])


@by_all
def test_no_room_for_a_new_segment(clients: Clients, kafka: Kafka) -> None:
    topic = kafka.create_topic("t", configs={"segment.bytes": "1048576"})
    full = kafka.faults.add(disk="full", on="roll", topic="t", times=2)
    values = [str(number) * 600_000 for number in range(3)]
    producer = clients.producer(kafka)
    assert [producer.send("t", value) for value in values] == [[0], [1], [2]]
    full.assert_happened(times=2)
    topic.assert_holds(values)


@by_all
def test_a_slow_disk(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    slow = kafka.faults.add(disk="slow", on="append", topic=topic.name, delay_ms=800, times=1)
    start = time.monotonic()
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    assert time.monotonic() - start > 0.8
    slow.assert_happened(times=1)
    topic.assert_holds(["a"])


@by_all
def test_a_disk_that_fails(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """The broker has no other one, and stops; it is started again with its data."""
    producer = clients.producer(kafka)
    assert producer.send(topic.name, "a") == [0]
    kafka.faults.add("failed-disk", on="append", topic=topic.name)
    sending = producer.begin("send", topic=topic.name, values=["b"])
    wait_for_the_end(kafka)
    kafka.start()
    assert sending.result() == [1]
    topic.assert_holds(["a", "b"])


@by_all
@pytest.mark.parametrize("carried_out", [False, True])
def test_the_broker_dies(clients: Clients, kafka: Kafka, topic: Topic, carried_out: bool) -> None:
    """Before or after it has written what it was sent."""
    producer = clients.producer(kafka)
    assert producer.send(topic.name, "a") == [0]
    kafka.faults.add(api="Produce", topic=topic.name, die=True, carried_out=carried_out)
    sending = producer.begin("send", topic=topic.name, values=["b"])
    wait_for_the_end(kafka)
    kafka.start()
    assert sending.result() == [1]
    topic.assert_holds(["a", "b"])


@by_all
def test_metadata_that_is_stale(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    fault = kafka.faults.add("stale-metadata", topic=topic.name, times=2)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    fault.assert_happened(times=2)


@by_all
def test_a_record_that_is_too_large(clients: Clients, kafka: Kafka) -> None:
    """It is named, and those after it are written."""
    topic = kafka.create_topic("t", configs={"max.message.bytes": "1000"})
    producer = clients.producer(kafka)
    assert producer.send("t", "x" * 2000) == ["MESSAGE_TOO_LARGE"]
    assert producer.send("t", "a") == [0]
    topic.assert_holds(["a"])


@by_all
def test_a_topic_that_may_not_be_written(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    error = "TOPIC_AUTHORIZATION_FAILED"
    fault = kafka.faults.add(api="Produce", topic=topic.name, error=error)
    assert clients.producer(kafka).send(topic.name, "a") == [error]
    fault.assert_happened(times=1)
    assert topic.records() == []


@by_all
def test_several_in_flight_of_which_the_first_fails(
    clients: Clients, kafka: Kafka, topic: Topic
) -> None:
    """librdkafka #2501: those behind it are refused for their sequence numbers, and all are there
    once and in order.  Before its first record a broker has no number to go by."""
    producer = clients.producer(kafka, batch_bytes=1024)
    assert producer.send(topic.name, "first") == [0]
    values = [f"{number}-{'x' * 700}" for number in range(20)]
    fault = kafka.faults.add("leader-moved", api="Produce", topic=topic.name, times=1)
    assert producer.send(topic.name, *values) == list(range(1, 21))
    fault.assert_happened(times=1)
    topic.assert_holds(["first", *values])


@by_all
def test_no_producer_id_at_first(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    error = "COORDINATOR_LOAD_IN_PROGRESS"
    fault = kafka.faults.add(api="InitProducerId", error=error, times=2)
    assert clients.producer(kafka).send(topic.name, "a") == [0]
    fault.assert_happened(times=2)


@by_all
def test_a_record_that_is_given_up(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Nobody leads its partition for longer than the caller would wait."""
    kafka.faults.add("leader-moved", api="Produce", topic=topic.name)
    producer = clients.producer(
        kafka, delivery_timeout_ms=2000, request_timeout_ms=1000, idempotent=False, acks="1"
    )
    (outcome,) = producer.send(topic.name, "a")
    assert outcome in ("TIMED_OUT", "NOT_LEADER_OR_FOLLOWER")
    assert topic.records() == []


@by_all
def test_another_controller(clients: Clients, kafka: Kafka) -> None:
    """Java's administrator asks again by itself, and others are told."""
    fault = kafka.faults.add(api="CreateTopics", error="NOT_CONTROLLER", times=1)
    admin = clients.admin(kafka)
    if clients.language == "python":
        assert_refused(admin.begin("create", topic="t"), "NOT_CONTROLLER")
    admin.do("create", topic="t")
    fault.assert_happened(times=1)
    assert kafka.topics() == ["t"]


def wait_for_the_end(kafka: Kafka) -> None:
    deadline = time.monotonic() + WAIT_S
    while kafka.running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
