"""Helpers of the tests with confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 120.0


def produce(bootstrap: str, topic: str, count: int, **settings: object) -> None:
    """Send `count` records with values "0", "1", ..., once; every one must be acknowledged.

    Each goes to a partition that is drawn for it: librdkafka itself sends all records of 10 ms to
    one, so that of several hundred none may come to the others.
    """
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    by_all = settings.get("acks", "all") == "all"  # without it nobody can know a repeated batch
    once = {"sticky.partitioning.linger.ms": 0, "enable.idempotence": by_all}
    producer = Producer({"bootstrap.servers": bootstrap, **once, **settings})
    for number in range(count):
        producer.produce(topic, str(number).encode(), on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


@contextmanager
def consumer(bootstrap: str, group: str, **settings: object) -> Iterator[Consumer]:
    defaults = {"bootstrap.servers": bootstrap, "group.id": group}
    made = Consumer({**defaults, "auto.offset.reset": "earliest", **settings})
    try:
        yield made
    finally:
        made.close()


def take(source: Consumer, count: int) -> list[Message]:
    """The next `count` messages, none of them an error."""
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count and time.monotonic() < deadline:
        messages += source.consume(count - len(messages), 0.5)
    assert [message.error() for message in messages] == [None] * count
    return messages


def values(messages: list[Message]) -> list[int]:
    return [int(message.value() or b"-1") for message in messages]


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replication_factor=1, config=config or {})
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def wait_until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll the consumers until `condition` holds, and ignore their records."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "not within the time limit"
        for each in consumers:
            each.poll(0.05)
