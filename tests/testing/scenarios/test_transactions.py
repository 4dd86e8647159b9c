"""Faults that befall transactions: all of one is there, or nothing, and who has lost is told so."""

from __future__ import annotations

from kwire.testing import Kafka, Topic
from tests.testing.scenarios.clients import Client, Clients, assert_refused
from tests.testing.scenarios.scenario import by_all

FENCED = (
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "_FENCED",
    "ProducerFencedException",
    "InvalidProducerEpochException",
)
"""By which a client tells its caller that another one has its transactional id."""
WAIT_S = 120


def begun(clients: Clients, kafka: Kafka, topic: Topic, *values: str, **settings: object) -> Client:
    """A producer with these records in an open transaction."""
    producer = clients.producer(kafka, transactional_id=topic.name, **settings)
    producer.do("init")
    producer.do("begin")
    assert all(isinstance(each, int) for each in producer.send(topic.name, *values))
    return producer


@by_all
def test_a_fenced_producer(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Really: by another one with its transactional id."""
    first = begun(clients, kafka, topic, "lost")
    second = begun(clients, kafka, topic, "kept")
    assert_refused(first.begin("commit"), *FENCED)
    second.do("commit")
    topic.assert_holds(["kept"], committed=True, within_s=WAIT_S)


@by_all
def test_a_producer_that_is_told_it_is_fenced(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    producer = begun(clients, kafka, topic, "lost")
    kafka.faults.add(api="EndTxn", transactional_id=topic.name, error="PRODUCER_FENCED")
    assert_refused(producer.begin("commit"), *FENCED)
    topic.assert_holds([], committed=True)


@by_all
def test_the_reply_to_a_commit_is_lost(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    producer = begun(clients, kafka, topic, "a", "b")
    fault = kafka.faults.add("lost-reply", api="EndTxn", transactional_id=topic.name, times=1)
    producer.do("commit")
    fault.assert_happened(times=1)
    topic.assert_holds(["a", "b"], committed=True, within_s=WAIT_S)


@by_all
def test_the_transaction_before_is_not_over(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    producer = clients.producer(kafka, transactional_id=topic.name)
    producer.do("init")
    error = "CONCURRENT_TRANSACTIONS"
    fault = kafka.faults.add(api="EndTxn", transactional_id=topic.name, error=error, times=2)
    producer.do("begin")
    assert producer.send(topic.name, "a") == [0]
    producer.do("commit")
    fault.assert_happened(times=2)
    topic.assert_holds(["a"], committed=True, within_s=WAIT_S)


@by_all
def test_a_transaction_that_took_too_long(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """By the clock: nobody waits for a minute."""
    producer = begun(clients, kafka, topic, "a", transaction_timeout_ms=60_000)
    kafka.clock.advance(minutes=2)
    assert_refused(
        producer.begin("commit"),
        *FENCED,
        "_STATE",
        "INVALID_TXN_STATE",
        "TransactionAbortedException",
        "TRANSACTION_ABORTABLE",
    )
    topic.assert_holds([], committed=True, within_s=WAIT_S)
    topic.seed(["b"])
    topic.assert_holds(["b"], committed=True, within_s=WAIT_S)


@by_all
def test_its_coordinator_loads(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    loading = kafka.faults.add(
        "coordinator-loading", api="InitProducerId", transactional_id=topic.name, times=2
    )
    producer = begun(clients, kafka, topic, "a")
    loading.assert_happened(times=2)
    moved = kafka.faults.add(
        "coordinator-moved", api="EndTxn", transactional_id=topic.name, times=1
    )
    producer.do("commit")
    moved.assert_happened(times=1)
    topic.assert_holds(["a"], committed=True, within_s=WAIT_S)


@by_all
def test_its_coordinator_is_loaded_anew(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Really, from a disk that is slow."""
    producer = begun(clients, kafka, topic, "a")
    kafka.faults.add(disk="slow", on="read", topic="__transaction_state", delay_ms=300, times=2)
    kafka.reload_coordinator(transactional_id=topic.name)
    producer.do("commit")
    topic.assert_holds(["a"], committed=True, within_s=WAIT_S)


@by_all
def test_an_aborted_transaction_is_followed_by_another(
    clients: Clients, kafka: Kafka, topic: Topic
) -> None:
    producer = begun(clients, kafka, topic, "lost")
    kafka.faults.add(api="EndTxn", transactional_id=topic.name, disconnect=True, times=1)
    producer.do("abort")
    producer.do("begin")
    producer.send(topic.name, "kept")
    producer.do("commit")
    topic.assert_holds(["kept"], committed=True, within_s=WAIT_S)
