"""The other side of a Spark query: what its topics hold, and what happens to them under it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

TIMEOUT_S = 300.0
"""Far more than any of it takes, on a machine that is at work on other things too."""
POLL_S = 0.02

Headers = list[tuple[str, str | bytes | None]]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll a condition, for states that are not reported."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S:.0f} s: {what}"
        time.sleep(POLL_S)


class Cluster:
    """A broker by its address, through librdkafka. Records' values are numbers as text."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    # -- topics

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        new = NewTopic(topic, partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(TIMEOUT_S)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until no metadata names it."""
        self.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        wait_until(
            lambda: topic not in self.admin.list_topics(timeout=TIMEOUT_S).topics, f"{topic} goes"
        )

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT_S)

    def alter(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Move the log start of a partition."""
        at = TopicPartition(topic, partition, before)
        assert self.admin.delete_records([at])[at].result(TIMEOUT_S).low_watermark == before

    def log_start(self, topic: str, partition: int = 0) -> int:
        at = TopicPartition(topic, partition)
        offset: int = (
            self.admin.list_offsets({at: OffsetSpec.earliest()})[at].result(TIMEOUT_S).offset
        )
        return offset

    def groups(self, containing: str) -> list[str]:
        listed = self.admin.list_consumer_groups().result(TIMEOUT_S)
        return [group.group_id for group in listed.valid if containing in group.group_id]

    # -- records

    def produce(
        self,
        topic: str,
        numbers: Iterable[int],
        partition: int = 0,
        *,
        key: Callable[[int], str] = str,
        timestamp_ms: Callable[[int], int] | None = None,
        headers: Headers | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Send records in order; each must be acknowledged."""
        made = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, **(settings or {})})
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for number in numbers:
            stamp = timestamp_ms(number) if timestamp_ms else 0  # none: now
            made.produce(
                topic,
                str(number).encode(),
                key(number).encode(),
                partition,
                on_delivery=delivered,
                headers=headers,
                timestamp=stamp,
            )
        assert made.flush(TIMEOUT_S) == 0
        assert not failed

    @contextmanager
    def transaction(
        self, topic: str, numbers: Iterable[int], partition: int = 0
    ) -> Iterator[Producer]:
        """A transaction with these records in the log; the caller ends it."""
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": f"{topic}-producer"}
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for number in numbers:
            producer.produce(topic, str(number), partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        yield producer

    def commit(self, topic: str, numbers: Iterable[int], partition: int = 0) -> None:
        with self.transaction(topic, numbers, partition) as producer:
            producer.commit_transaction(TIMEOUT_S)

    def abort(self, topic: str, numbers: Iterable[int], partition: int = 0) -> None:
        with self.transaction(topic, numbers, partition) as producer:
            producer.abort_transaction(TIMEOUT_S)

    def messages(self, topic: str) -> list[Message]:
        """All committed records of a topic, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: list[Message] = []
        ended = 0
        deadline = time.monotonic() + TIMEOUT_S
        while ended < len(partitions):
            assert time.monotonic() < deadline, f"{topic} was not read to its end"
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def numbers(self, topic: str) -> list[int]:
        """The values of all committed records, in order."""
        return sorted(int(message.value() or b"-1") for message in self.messages(topic))
