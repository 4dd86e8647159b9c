"""A consumer group of three: kafka-python and confluent-kafka in one group, default settings.

Both offer the range assignor first, so that is what the group agrees on. Each member runs in a
thread of its own; together they must see every record once.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaError

POLL_S = 0.2
STALL_S = 60.0  # without a record for so long, the group is stuck
BATCH_RECORDS = 5_000

Position = tuple[int, int]
"""Partition and offset."""


class GroupError(RuntimeError):
    """The members did not see every record exactly once."""


class Member(ABC):
    """One member; `positions` are what it got."""

    library: str

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.positions: list[Position] = []
        self.partitions: set[int] = set()
        self.failure: BaseException | None = None

    def run(self, done: threading.Event) -> None:
        """Consume until told that all is there; leave the group with the offsets committed."""
        try:
            for position in self.poll_until(done):
                self.positions.append(position)
                self.partitions.add(position[0])
        except (GroupError, KafkaException, KafkaError, OSError) as failure:
            self.failure = failure

    @abstractmethod
    def poll_until(self, done: threading.Event) -> Iterator[Position]:
        """Positions of the records as they come, until `done` is set."""


class KafkaPython(Member):
    """A member by kafka-python."""

    library = "kafka-python"

    def poll_until(self, done: threading.Event) -> Iterator[Position]:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
        )
        try:
            while not done.is_set():
                for records in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                    for record in records:
                        yield record.partition, record.offset
        finally:
            consumer.close()


class ConfluentKafka(Member):
    """A member by confluent-kafka."""

    library = "confluent-kafka"

    def poll_until(self, done: threading.Event) -> Iterator[Position]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not done.is_set():
                for message in consumer.consume(BATCH_RECORDS, POLL_S):
                    if error := message.error():
                        raise GroupError(f"{self.library}: {error}")
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None  # only a message not yet delivered has neither
                    assert offset is not None
                    yield partition, offset
        finally:
            consumer.close()


def consume(
    bootstrap: str, topic: str, group: str, expected: int, progress: Callable[[int], None]
) -> list[Member]:
    """Let three members consume `expected` records; the members, with what each has got.

    Raises GroupError when records are missing or came twice.
    """
    kinds = (KafkaPython, KafkaPython, ConfluentKafka)
    members: list[Member] = [kind(bootstrap, topic, group) for kind in kinds]
    done = threading.Event()
    threads = [threading.Thread(target=member.run, args=(done,)) for member in members]
    for thread in threads:
        thread.start()
    try:
        _wait(members, expected, progress)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    _check(members, expected)
    return members


def _wait(members: list[Member], expected: int, progress: Callable[[int], None]) -> None:
    """Until so many records came, or none for STALL_S, or a member failed."""
    came = 0
    last_change = time.monotonic()
    while came < expected and time.monotonic() - last_change < STALL_S:
        if any(member.failure for member in members):
            return
        time.sleep(POLL_S)
        now = sum(len(member.positions) for member in members)
        if now != came:
            came, last_change = now, time.monotonic()
            progress(came)


def _check(members: list[Member], expected: int) -> None:
    for member in members:
        if member.failure is not None:
            raise GroupError(f"{member.library} failed: {member.failure}") from member.failure
    total = sum(len(member.positions) for member in members)
    distinct = len(set[Position]().union(*(member.positions for member in members)))
    if (total, distinct) != (expected, expected):
        raise GroupError(
            f"{expected} records were produced; the group got {total}, {distinct} of them different"
        )


def committed(bootstrap: str, topic: str, group: str) -> int:
    """The sum of the group's committed offsets over the topic's partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(STALL_S)
    return sum(part.offset for part in found.topic_partitions if part.topic == topic)
