"""Two stock clients with the same interface: confluent-kafka (librdkafka) and kafka-python."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import confluent_kafka
import kafka
from confluent_kafka import KafkaError, TopicPartition
from kafka.structs import TopicPartition as At

TIMEOUT_S = 120.0


class Record(NamedTuple):
    """A record to write, or a record that was read."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    """None: the time of the write, which tests do not compare."""


class Client(ABC):
    """A client that writes records, and reads them without a group."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def write(
        self, topic: str, records: Iterable[Record], *, compression: str = "none", acks: str = "all"
    ) -> None:
        """Write all records, and wait for their acknowledgements."""

    @abstractmethod
    def read(self, topic: str, partition: int, start: int, count: int) -> list[Record]:
        """`count` records from an offset on."""

    @abstractmethod
    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first record of that time or later."""

    @abstractmethod
    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """The offset of the first record, and the one after the last."""


class Confluent(Client):
    def write(
        self, topic: str, records: Iterable[Record], *, compression: str = "none", acks: str = "all"
    ) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 1}
        with_codec = {"compression.type": compression, "acks": acks, "message.max.bytes": 2_000_000}
        producer = confluent_kafka.Producer({**settings, **with_codec})
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: confluent_kafka.Message) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []

    @contextmanager
    def _reader(self) -> Iterator[confluent_kafka.Consumer]:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "none"}
        reader = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
        try:
            yield reader
        finally:
            reader.close()

    def read(self, topic: str, partition: int, start: int, count: int) -> list[Record]:
        with self._reader() as reader:
            reader.assign([TopicPartition(topic, partition, start)])
            return [of_confluent(message) for message in taken(reader, count)]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        with self._reader() as reader:
            times = [TopicPartition(topic, partition, timestamp_ms)]
            return int(reader.offsets_for_times(times, TIMEOUT_S)[0].offset)

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        with self._reader() as reader:
            low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
            return int(low), int(high)


class KafkaPython(Client):
    def write(
        self, topic: str, records: Iterable[Record], *, compression: str = "none", acks: str = "all"
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if compression == "none" else compression,
            acks="all" if acks == "all" else int(acks),
            max_request_size=2_000_000,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            for future in sent:
                future.get(TIMEOUT_S)
        finally:
            producer.close()

    @contextmanager
    def _reader(self) -> Iterator[kafka.KafkaConsumer]:
        reader = kafka.KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            yield reader
        finally:
            reader.close()

    def read(self, topic: str, partition: int, start: int, count: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        with self._reader() as reader:
            reader.assign([At(topic, partition)])
            reader.seek(At(topic, partition), start)
            while len(found) < count and time.monotonic() < deadline:
                for records in reader.poll(500).values():
                    found += [of_kafka_python(each) for each in records]
        return found[:count]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        at = At(topic, partition)
        with self._reader() as reader:
            return int(reader.offsets_for_times({at: timestamp_ms})[at].offset)

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        at = At(topic, partition)
        with self._reader() as reader:
            return int(reader.beginning_offsets([at])[at]), int(reader.end_offsets([at])[at])


BY_NAME: dict[str, type[Client]] = {"confluent-kafka": Confluent, "kafka-python": KafkaPython}


def taken(reader: confluent_kafka.Consumer, count: int) -> list[confluent_kafka.Message]:
    """The next messages, none of them an error."""
    found: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        found += reader.consume(count - len(found), 0.2)
    assert [each.error() for each in found] == [None] * count
    return found


def of_confluent(message: confluent_kafka.Message) -> Record:
    headers: Any = message.headers() or ()  # pairs, though their type says more
    return Record(message.value(), message.key(), tuple(headers), message.timestamp()[1])


def of_kafka_python(record: kafka.consumer.fetcher.ConsumerRecord) -> Record:
    return Record(record.value, record.key, tuple(record.headers), record.timestamp)


def without_time(records: Iterable[Record]) -> list[Record]:
    return [record._replace(timestamp_ms=None) for record in records]
