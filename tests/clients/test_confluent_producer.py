"""Tests confluent-kafka's producer with refused, late and unusual records."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message, Producer, TopicPartition

from tests.clients.librdkafka import TIMEOUT_S, consumer, create_topic, produce, take, values

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


class Deliveries:
    """The result of each record that was sent."""

    def __init__(self) -> None:
        self.offsets: list[int | None] = []
        self.codes: list[int] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.codes.append(error.code())


def send(bootstrap: str, topic: str, *records: tuple[bytes, int], **settings: object) -> Deliveries:
    """Send (value, timestamp) records to partition 0 and wait for all of them."""
    found = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for value, timestamp_ms in records:
        producer.produce(topic, value, partition=0, timestamp=timestamp_ms, on_delivery=found)
    assert producer.flush(TIMEOUT_S) == 0
    return found


@pytest.mark.parametrize("idempotent", [False, True])
def test_min_insync_replicas_above_the_replication_factor_is_ignored(
    bootstrap: str, unique: str, idempotent: bool
) -> None:
    """The existing replicas suffice: their number limits `min.insync.replicas` (KIP-966)."""
    create_topic(bootstrap, unique, config={"min.insync.replicas": "2"})
    settings = {"enable.idempotence": idempotent}
    assert send(bootstrap, unique, (b"1", 0), (b"2", 0), **settings).offsets == [0, 1]


@pytest.mark.parametrize(
    ("config", "codes"),
    [
        ({}, [KafkaError.INVALID_TIMESTAMP]),
        ({"message.timestamp.after.max.ms": str(3 * HOUR_MS)}, []),
        ({"message.timestamp.type": "LogAppendTime"}, []),
    ],
    ids=["default", "wider", "append-time"],
)
def test_timestamp_too_far_in_the_future_is_refused(
    bootstrap: str, unique: str, config: dict[str, str], codes: list[int]
) -> None:
    """By default the limit is an hour ahead (KIP-937)."""
    create_topic(bootstrap, unique, config=config)
    now_ms = int(time.time() * 1000)
    assert send(bootstrap, unique, (b"1", now_ms + 2 * HOUR_MS)).codes == codes
    assert send(bootstrap, unique, (b"1", now_ms + HOUR_MS // 2)).codes == []


def test_old_timestamps_are_accepted(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, config={"message.timestamp.before.max.ms": str(HOUR_MS)})
    now_ms = int(time.time() * 1000)
    old = send(bootstrap, unique, (b"1", now_ms - 2 * HOUR_MS))
    assert old.codes == [KafkaError.INVALID_TIMESTAMP]
    assert send(bootstrap, unique, (b"1", now_ms - HOUR_MS // 2)).offsets == [0]


def test_producer_continues_after_a_refused_batch(bootstrap: str, unique: str) -> None:
    """An idempotent producer continues its sequence numbers after a refused batch."""
    create_topic(bootstrap, unique, config={"max.message.bytes": "1000"})
    found = Deliveries()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for size in (10, 2_000, 20, 3_000, 30):
        producer.produce(unique, bytes(size), on_delivery=found)
        assert producer.flush(TIMEOUT_S) == 0
    assert (found.offsets, found.codes) == ([0, 1, 2], [KafkaError.MSG_SIZE_TOO_LARGE] * 2)


def test_compacted_topic_refuses_records_without_keys(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, config={"cleanup.policy": "compact"})
    assert send(bootstrap, unique, (b"no key", 0)).codes == [KafkaError.INVALID_RECORD]
    found = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(unique, b"value", b"key", on_delivery=found)
    producer.produce(unique, None, b"key", on_delivery=found)
    assert producer.flush(TIMEOUT_S) == 0
    assert found.offsets == [0, 1]


@pytest.mark.parametrize("partition", [1, 17])
def test_record_to_an_unknown_partition_is_refused(
    bootstrap: str, unique: str, partition: int
) -> None:
    create_topic(bootstrap, unique)
    found = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(unique, b"1", partition=partition, on_delivery=found)
    assert producer.flush(TIMEOUT_S) == 0
    assert found.codes == [KafkaError._UNKNOWN_PARTITION]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no spaces", KafkaError.TOPIC_EXCEPTION),
        ("a" * 250, KafkaError.TOPIC_EXCEPTION),
        ("..", KafkaError.TOPIC_EXCEPTION),
    ],
)
def test_record_to_an_invalid_topic_name_is_refused(bootstrap: str, name: str, code: int) -> None:
    assert send(bootstrap, name, (b"1", 0)).codes == [code]


def test_records_of_a_key_are_in_one_partition(bootstrap: str, unique: str) -> None:
    """With each partitioner, all records of a key are in one partition, in order."""
    create_topic(bootstrap, unique, partitions=5)
    for partitioner in ("consistent_random", "murmur2_random", "fnv1a_random"):
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": partitioner})
        for number in range(200):
            producer.produce(unique, str(number).encode(), f"{partitioner}{number % 20}".encode())
        assert producer.flush(TIMEOUT_S) == 0
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([unique])
        places: dict[bytes | None, list[tuple[int | None, int]]] = {}
        for message in take(reader, 600):
            at = (message.partition(), int(message.value() or b"-1"))
            places.setdefault(message.key(), []).append(at)
    assert len(places) == 60
    for found in places.values():
        assert len({partition for partition, _ in found}) == 1
        assert [number for _, number in found] == sorted(number for _, number in found)


def test_producer_writes_to_many_topics_at_once(bootstrap: str, unique: str) -> None:
    """The first record creates each topic; later requests have batches for many topics."""
    topics = [f"{unique}-{number}" for number in range(30)]
    found = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(300):
        producer.produce(topics[number % 30], str(number).encode(), on_delivery=found)
    assert producer.flush(TIMEOUT_S) == 0
    assert (len(found.offsets), found.codes) == (300, [])
    with consumer(bootstrap, unique) as reader:
        reader.subscribe([f"^{unique}-.*"])
        assert sorted(values(take(reader, 300))) == list(range(300))


def test_batches_of_two_producers_stay_separate(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    found = Deliveries()
    producers = [Producer({"bootstrap.servers": bootstrap, "linger.ms": 5}) for _ in range(4)]
    for number in range(400):
        producers[number % 4].produce(unique, str(number).encode(), on_delivery=found)
    for producer in producers:
        assert producer.flush(TIMEOUT_S) == 0
    assert sorted(offset or 0 for offset in found.offsets) == list(range(400))
    with consumer(bootstrap, unique) as reader:
        reader.assign([TopicPartition(unique, 0, 0)])
        read = values(take(reader, 400))
    for turn in range(4):
        assert [number for number in read if number % 4 == turn] == list(range(turn, 400, 4))


def test_purged_record_is_not_written(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    found = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000})
    producer.produce(unique, b"1", on_delivery=found)
    producer.purge()
    assert producer.flush(TIMEOUT_S) == 0
    assert found.codes == [KafkaError._PURGE_QUEUE]
    produce(bootstrap, unique, 2)
    with consumer(bootstrap, unique) as reader:
        reader.assign([TopicPartition(unique, 0, 0)])
        first, second = take(reader, 2)
    assert values([first, second]) == [0, 1]
    assert first.offset() == 0
    assert first.timestamp()[0] == TIMESTAMP_CREATE_TIME
