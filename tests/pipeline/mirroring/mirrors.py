"""Topics to mirror, and both sides as a plain consumer reads them: no Spark, nothing of kwire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kwire.pipeline.demo import flights
from tests.pipeline.markers import wait_for_markers

TIMEOUT_S = 120.0
BEGIN_MS = int(time.time() * 1000) - 3_600_000
"""Of the first record: so old that a week's retention is far, and never in the future."""


class Record(NamedTuple):
    """The fields that must be equal on both sides; offsets may differ."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def admin(bootstrap: str) -> AdminClient:
    """An admin client; the caller must keep it, because its requests end with it."""
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic; configs have _ instead of dots."""
    config = {key.replace("_", "."): value for key, value in configs.items()}
    client = admin(bootstrap)
    client.create_topics([NewTopic(name, partitions, config=config)])[name].result(TIMEOUT_S)


def configs_of(bootstrap: str, name: str) -> dict[str, str]:
    """The configs that are set on the topic itself."""
    client = admin(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = client.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {key: entry.value for key, entry in found.items() if entry.source == 1}


def partitions_of(bootstrap: str, name: str) -> int:
    """The number of partitions; 0 if there is no such topic."""
    topics = admin(bootstrap).list_topics(timeout=TIMEOUT_S).topics
    return len(topics[name].partitions) if name in topics else 0


def messages(bootstrap: str, topic: str, partition: int, start: int = 0) -> Iterator[Message]:
    """The committed records of a partition, from an offset to the present end."""
    wait_for_markers(bootstrap, TopicPartition(topic, partition))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "mirrors-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            for message in consumer.consume(10_000, 0.2):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return
                yield message
    finally:
        consumer.close()


def record_of(message: Message) -> Record:
    headers = tuple(message.headers() or ())
    return Record(message.key(), message.value(), message.timestamp()[1], headers)  # type: ignore[arg-type]  # bytes


def records(bootstrap: str, topic: str, partition: int = 0) -> list[Record]:
    """The records of a partition."""
    return [record_of(message) for message in messages(bootstrap, topic, partition)]


def places(bootstrap: str, topic: str, partition: int = 0) -> dict[int, Record]:
    """The records of a partition by their offsets."""
    found = messages(bootstrap, topic, partition)
    return {message.offset(): record_of(message) for message in found}  # type: ignore[misc]  # ints


def all_records(bootstrap: str, topic: str) -> list[list[Record]]:
    """The records of each partition."""
    count = partitions_of(bootstrap, topic)
    return [records(bootstrap, topic, partition) for partition in range(count)]


def write(bootstrap: str, topic: str, written: Iterable[Record], partition: int = -1) -> None:
    """Write records to the partitions of their keys, or to one."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in written:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def write_in_transactions(
    bootstrap: str, topic: str, partition: int, transactions: Iterable[tuple[list[Record], bool]]
) -> None:
    """Write transactions; each is committed, or aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-of-{topic}"})
    producer.init_transactions(TIMEOUT_S)
    for written, is_committed in transactions:
        producer.begin_transaction()
        for record in written:
            producer.produce(
                topic, record.value, record.key, partition, timestamp=record.timestamp_ms
            )
        producer.flush(TIMEOUT_S)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(TIMEOUT_S)
    wait_for_markers(bootstrap, TopicPartition(topic, partition))


def flight_records(every: int = 1000) -> list[Record]:
    """Every n-th flight, keyed by its tail number, with headers; null if it was cancelled."""
    found = []
    for number, row in enumerate(flights.rows(every)):
        cancelled = row["dep_time"] == flights.MISSING
        found.append(
            Record(
                key=None if row["tailnum"] == flights.MISSING else row["tailnum"].encode(),
                value=None if cancelled else json.dumps(row).encode(),
                timestamp_ms=BEGIN_MS + number,
                headers=(("carrier", row["carrier"].encode()), ("carrier", b""), ("no", None))
                if number % 3 == 0
                else (),
            )
        )
    return found


def numbered(count: int, start: int = 0) -> list[Record]:
    """Records with their number as the value."""
    return [
        Record(b"%d" % n, b"record %d" % n, BEGIN_MS + n, ()) for n in range(start, start + count)
    ]


SOON = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    }
)
"""What a broker that has just started says of a group."""


def commit(bootstrap: str, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit an offset for a group, as its consumer would."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
            break
        except KafkaException as failed:
            if failed.args[0].code() not in SOON:
                raise
    consumer.close()


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """The committed offset of a group; -1001 if there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, partition)], TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def unread(bootstrap: str, group: str, topic: str, partition: int = 0) -> list[Record]:
    """The records that a group has not read yet."""
    start = committed(bootstrap, group, topic, partition)
    found = places(bootstrap, topic, partition)
    return [record for offset, record in found.items() if offset >= start]
