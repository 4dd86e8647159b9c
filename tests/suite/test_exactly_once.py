"""Tests of transactions: isolation, committed offsets, and fencing."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.suite.clients import TIMEOUT_S, Confluent, Record, taken


@pytest.fixture
def producer(bootstrap: str, unique: str) -> Producer:
    return transactional(bootstrap, unique)


def transactional(bootstrap: str, name: str, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **settings})
    producer.init_transactions(TIMEOUT_S)
    return producer


def seen(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": isolation}
    reader = Consumer({**settings, "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, 0)])
    values = [message.value() for message in taken(reader, count)]
    reader.close()
    return values


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
@pytest.mark.parametrize("count", [1, 50])
def test_isolation_level_decides_which_transactions_are_read(
    bootstrap: str,
    topic: str,
    unique: str,
    compression: str,
    isolation: str,
    outcome: str,
    count: int,
) -> None:
    producer = transactional(bootstrap, unique, **{"compression.type": compression})
    producer.begin_transaction()
    inside = [b"%d" % number for number in range(count)]
    for value in inside:
        producer.produce(topic, value)
    producer.flush(TIMEOUT_S)
    if outcome == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
    Confluent(bootstrap).write(topic, [Record(b"after")])
    is_hidden = outcome == "abort" and isolation == "read_committed"
    expected = [b"after"] if is_hidden else [*inside, b"after"]
    assert seen(bootstrap, topic, len(expected), isolation) == expected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
@pytest.mark.parametrize("count", [1, 20])
def test_offsets_are_committed_with_the_transaction(
    bootstrap: str,
    topic: str,
    producer: Producer,
    unique: str,
    protocol: str,
    outcome: str,
    count: int,
) -> None:
    source = topic
    Confluent(bootstrap).write(source, [Record(b"%d" % number) for number in range(count)])
    settings = {"bootstrap.servers": bootstrap, "group.id": unique, "group.protocol": protocol}
    reader = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    reader.subscribe([source])
    read = taken(reader, count)
    producer.begin_transaction()
    for message in read:
        producer.produce(source, message.value())
    position = reader.position(reader.assignment())
    producer.send_offsets_to_transaction(position, reader.consumer_group_metadata(), TIMEOUT_S)
    if outcome == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
    (committed,) = reader.committed([TopicPartition(source, 0)], TIMEOUT_S)
    reader.close()
    assert committed.offset == (count if outcome == "commit" else -1001)


@pytest.mark.parametrize("step", ["commit", "abort"])
def test_older_producer_of_a_transactional_id_is_fenced(
    bootstrap: str, topic: str, producer: Producer, unique: str, step: str
) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"from the older one")
    producer.flush(TIMEOUT_S)
    newer = transactional(bootstrap, unique)
    ended = producer.commit_transaction if step == "commit" else producer.abort_transaction
    with pytest.raises(KafkaException):
        ended(TIMEOUT_S)
    newer.begin_transaction()
    newer.produce(topic, b"from the newer one")
    newer.commit_transaction(TIMEOUT_S)
    assert seen(bootstrap, topic, 1) == [b"from the newer one"]
