"""Tests confluent-kafka (librdkafka) as a transactional producer, with readers of its topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.waiting import eventually

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
PARTITIONS = 3


def create_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """A producer that can begin a transaction."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **settings}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def send(producer: Producer, topic: str, numbers: range) -> None:
    """Send one record for each number, to the partitions in turn."""
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)


@contextmanager
def reader(
    bootstrap: str, topic: str, isolation: str = "read_committed", partitions: int = PARTITIONS
) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    try:
        yield consumer
    finally:
        consumer.close()


def read_to_the_end(consumer: Consumer, partitions: int = PARTITIONS) -> list[int]:
    """All numbers up to the end of each partition that the isolation level shows."""
    numbers: list[int] = []
    ended: set[int | None] = set()
    while len(ended) < partitions:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "not within the time limit"
        error = message.error()
        if error is None:
            numbers.append(int(message.value() or b"-1"))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    return sorted(numbers)


def seen(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[int]:
    with reader(bootstrap, topic, isolation) as consumer:
        return read_to_the_end(consumer)


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = transactional(bootstrap, unique)
    for transaction in range(6):
        producer.begin_transaction()
        send(producer, unique, range(transaction * 10, transaction * 10 + 10))
        if transaction % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    committed = [n for n in range(60) if n // 10 % 2 == 0]
    eventually(lambda: seen(bootstrap, unique), committed)
    # What was sent when the transaction was aborted is in the log; librdkafka may purge the rest.
    assert set(seen(bootstrap, unique, "read_uncommitted")) >= set(committed)


def test_read_uncommitted_returns_aborted_records(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = transactional(bootstrap, unique)
    producer.begin_transaction()
    send(producer, unique, range(9))
    assert producer.flush(TIMEOUT_S) == 0
    producer.abort_transaction(TIMEOUT_S)
    assert seen(bootstrap, unique) == []
    assert seen(bootstrap, unique, "read_uncommitted") == list(range(9))


def test_read_committed_waits_for_an_open_transaction(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = transactional(bootstrap, unique)
    producer.begin_transaction()
    send(producer, unique, range(6))
    assert producer.flush(TIMEOUT_S) == 0
    assert seen(bootstrap, unique) == []
    other = Producer({"bootstrap.servers": bootstrap})
    send(other, unique, range(6, 9))
    assert other.flush(TIMEOUT_S) == 0
    assert seen(bootstrap, unique) == []
    assert seen(bootstrap, unique, "read_uncommitted") == list(range(9))
    producer.commit_transaction(TIMEOUT_S)
    eventually(lambda: seen(bootstrap, unique), list(range(9)))


def test_empty_transaction_can_be_committed_and_aborted(bootstrap: str, unique: str) -> None:
    producer = transactional(bootstrap, unique)
    producer.begin_transaction()
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.abort_transaction(TIMEOUT_S)


def test_second_producer_of_a_transactional_id_fences_the_first(
    bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique)
    first = transactional(bootstrap, unique)
    first.begin_transaction()
    send(first, unique, range(3))
    assert first.flush(TIMEOUT_S) == 0
    second = transactional(bootstrap, unique)
    second.begin_transaction()
    send(second, unique, range(10, 13))
    second.commit_transaction(TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(TIMEOUT_S)
    error = refused.value.args[0]
    assert error.fatal()
    assert error.code() == KafkaError._FENCED
    eventually(lambda: seen(bootstrap, unique), [10, 11, 12])


def test_offsets_and_records_of_a_transaction_are_committed_together(
    bootstrap: str, unique: str
) -> None:
    """The offsets and records of a transaction take effect together, or not at all."""
    source, target = f"{unique}-in", f"{unique}-out"
    create_topic(bootstrap, source)
    create_topic(bootstrap, target)
    plain = Producer({"bootstrap.servers": bootstrap})
    send(plain, source, range(30))
    assert plain.flush(TIMEOUT_S) == 0
    producer = transactional(bootstrap, unique)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": unique,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    for commit in (False, True):
        consumer = Consumer(settings)
        consumer.subscribe([source])
        taken: list[int] = []
        while len(taken) < 30:
            messages = consumer.consume(5, TIMEOUT_S)
            assert [message.error() for message in messages] == [None] * len(messages)
            assert messages, "not within the time limit"
            taken += [int(message.value() or b"-1") for message in messages]
        producer.begin_transaction()
        for number in taken:
            producer.produce(target, str(number * 2).encode(), partition=number % PARTITIONS)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            positions, consumer.consumer_group_metadata(), TIMEOUT_S
        )
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
        asked = [TopicPartition(source, index) for index in range(PARTITIONS)]
        offsets = [p.offset for p in consumer.committed(asked, TIMEOUT_S)]
        assert offsets == ([10, 10, 10] if commit else [-1001] * PARTITIONS)
        consumer.close()
    eventually(lambda: seen(bootstrap, target), [number * 2 for number in range(30)])


def test_transaction_timeout_above_the_maximum_is_refused(bootstrap: str, unique: str) -> None:
    """`transaction.max.timeout.ms` is 15 minutes by default."""
    settings = {"transactional.id": unique, "transaction.timeout.ms": 15 * 60_000 + 1}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_many_transactions_are_committed_in_sequence(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = transactional(bootstrap, unique)
    for number in range(60):
        producer.begin_transaction()
        send(producer, unique, range(number, number + 1))
        producer.commit_transaction(TIMEOUT_S)
    eventually(lambda: seen(bootstrap, unique), list(range(60)))
