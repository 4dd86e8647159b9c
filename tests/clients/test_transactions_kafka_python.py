"""Tests kafka-python as a transactional producer, with readers of its topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, ProducerFencedError

from tests.clients.waiting import eventually

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
PARTITIONS = 3


def create_topic(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()


@contextmanager
def transactional(bootstrap: str, transactional_id: str) -> Iterator[KafkaProducer]:
    """A producer that can begin a transaction."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    try:
        yield producer
    finally:
        producer.close(TIMEOUT_S)


def send(producer: KafkaProducer, topic: str, numbers: range) -> None:
    """Send one record for each number, to the partitions in turn; each must be acknowledged."""
    sent = [
        producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
        for number in numbers
    ]
    for future in sent:
        future.get(TIMEOUT_S)


def seen(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[int]:
    """All numbers up to the end of each partition that the isolation level shows."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    numbers: list[int] = []
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for records in consumer.poll(timeout_ms=500).values():
            numbers += [int(record.value) for record in records]
    consumer.close()
    return sorted(numbers)


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    with transactional(bootstrap, unique) as producer:
        for transaction in range(4):
            producer.begin_transaction()
            send(producer, unique, range(transaction * 10, transaction * 10 + 10))
            if transaction % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    eventually(lambda: seen(bootstrap, unique), [*range(10), *range(20, 30)])
    assert seen(bootstrap, unique, "read_uncommitted") == list(range(40))


def test_read_committed_waits_for_an_open_transaction(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    with transactional(bootstrap, unique) as producer:
        producer.begin_transaction()
        send(producer, unique, range(6))
        assert seen(bootstrap, unique) == []
        assert seen(bootstrap, unique, "read_uncommitted") == list(range(6))
        producer.commit_transaction()
    eventually(lambda: seen(bootstrap, unique), list(range(6)))


def test_second_producer_of_a_transactional_id_fences_the_first(
    bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique)
    with transactional(bootstrap, unique) as first:
        first.begin_transaction()
        send(first, unique, range(3))
        with transactional(bootstrap, unique) as second:
            second.begin_transaction()
            send(second, unique, range(10, 13))
            second.commit_transaction()
            with pytest.raises(KafkaError) as refused:
                first.commit_transaction()
    assert isinstance(refused.value, ProducerFencedError), refused.value
    eventually(lambda: seen(bootstrap, unique), [10, 11, 12])


def test_offsets_are_committed_only_with_the_transaction(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    partition = TopicPartition(unique, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=unique)
    with transactional(bootstrap, unique) as producer:
        for commit in (False, True):
            producer.begin_transaction()
            send(producer, unique, range(6))
            producer.send_offsets_to_transaction({partition: OffsetAndMetadata(2, "", -1)}, unique)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            eventually(lambda: consumer.committed(partition), 2 if commit else None)
    consumer.close()
