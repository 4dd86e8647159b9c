"""Topics to archive, and what is in an archive by pyarrow: nothing of Spark, nothing of kwire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 120.0

NOON_MS = 1_362_139_200_000
"""Of March 1, 2013, in UTC."""
HOUR_MS = 3_600_000


class Row(NamedTuple):
    """A record of a topic or of an archive."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(bootstrap: str, name: str, partitions: int, **configs: str) -> None:
    """Create a topic without retention, because the tests' timestamps are old."""
    given = {key.replace("_", "."): value for key, value in configs.items()}
    settings = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"} | given
    topic = NewTopic(name, partitions, replication_factor=1, config=settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result(TIMEOUT_S)


def add_partitions(bootstrap: str, name: str, count: int) -> None:
    from confluent_kafka.admin import NewPartitions

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, count)])[name].result(TIMEOUT_S)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Move the start of partitions, as retention would."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deletions = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(deletions).values():
        future.result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, rows: Iterable[dict[str, Any]]) -> None:
    """Rows as the arguments of `Producer.produce`."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
    )
    for row in rows:
        while True:
            try:
                producer.produce(topic, on_delivery=delivered, **row)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def rows(count: int, partitions: int, start: int = 0) -> Iterator[dict[str, Any]]:
    """Records of all shapes, an hour apart."""
    for number in range(start, start + count):
        yield {
            "key": None if number % 7 == 0 else b"key-%d" % number,
            "value": None if number % 5 == 0 else b"\x00\xff value %d" % number,
            "headers": [("a", b"1"), ("a", None), ("ä", b"")] if number % 3 == 0 else None,
            "partition": number % partitions,
            "timestamp": NOON_MS + number * HOUR_MS + number % 1000,
        }


def topic_rows(bootstrap: str, *topics: str) -> list[Row]:
    """All committed records of topics, by librdkafka, sorted."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "archive-tests"}
    consumer = Consumer(
        settings
        | {"isolation.level": "read_committed", "enable.auto.commit": False}
        | {"enable.partition.eof": True}
    )
    try:
        places = [
            TopicPartition(topic, partition, 0)
            for topic in topics
            for partition in consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        ]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, TIMEOUT_S)[0]
        consumer.assign(places)
        found: list[Row] = []
        ended: set[tuple[str | None, int | None]] = set()
        while len(ended) < len(places):
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    found.append(row_of(message))
                elif error.code() == error._PARTITION_EOF:
                    ended.add((message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
        return sorted(found, key=_place)
    finally:
        consumer.close()


def row_of(message: Any) -> Row:  # noqa: ANN401 - confluent_kafka's Message has no public type
    """A message of librdkafka, whose timestamp types are one higher than Kafka's own."""
    kind, timestamp_ms = message.timestamp()
    headers = tuple(message.headers() or ())
    return Row(
        message.topic(), message.partition(), message.offset(), timestamp_ms, kind - 1,
        message.key(), message.value(), headers,
    )  # fmt: skip


def archive_table(directory: Path) -> pa.Table:
    """All rows that a reader of Parquet files finds by listing the directory, file after file."""
    import pyarrow.dataset  # and with it pandas, which takes half a second

    fields = [("topic", pa.string()), ("date", pa.string())]
    hive = pyarrow.dataset.partitioning(pa.schema(fields), flavor="hive")
    return pyarrow.dataset.dataset(directory, format="parquet", partitioning=hive).to_table()


def archive_rows(directory: Path) -> list[Row]:
    """The records of an archive, sorted; a duplicate appears twice."""
    table = archive_table(directory)
    columns = table.set_column(
        table.schema.get_field_index("timestamp"), "timestamp", table["timestamp"].cast(pa.int64())
    )
    return sorted(
        (
            Row(
                row["topic"], row["partition"], row["offset"], row["timestamp"],
                row["timestampType"], row["key"], row["value"],
                tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            )
            for row in columns.to_pylist()
        ),
        key=_place,
    )  # fmt: skip


def _place(row: Row) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset
