"""A consumer group of three members: kafka-python and confluent-kafka with default settings.

Both libraries prefer the range assignor, so the group uses it.  Each member runs in its own thread.
Together they must get every record once.  The first member gets all partitions, so no member
consumes before all three have partitions.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

POLL_S = 0.2
STALL_S = 60.0  # if no record arrives for this time, the group is stuck
BATCH_RECORDS = 5_000

Position = tuple[int, int]
"""Partition and offset."""


class GroupError(RuntimeError):
    """The members did not see every record exactly once."""


class DemoMember(ABC):
    """A member.  `positions` are its records so far, `assigned` its present partitions."""

    library: str

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        """`positions` are the records that the member has received, in order."""
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.positions: list[Position] = []
        self.partitions: set[int] = set()
        self.assigned: frozenset[int] = frozenset()
        self.failure: BaseException | None = None

    def run(self, shared: threading.Event, done: threading.Event) -> None:
        """Consume after `shared` is set and until `done` is set, then commit and leave."""
        try:
            for position in self.poll_until(shared, done):
                self.positions.append(position)
                self.partitions.add(position[0])
        except (GroupError, KafkaException, KafkaError, OSError) as failure:
            self.failure = failure

    @abstractmethod
    def poll_until(self, shared: threading.Event, done: threading.Event) -> Iterator[Position]:
        """The positions of records that arrive after `shared` is set and before `done` is set."""


class KafkaPython(DemoMember):
    """A member that uses kafka-python."""

    library = "kafka-python"

    def poll_until(self, shared: threading.Event, done: threading.Event) -> Iterator[Position]:
        """Yield the position of each record until `done` is set.  The partitions stay paused until
        `shared` is set, so that all members get partitions before the first record is read."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest"
        )
        consumer.subscribe([self.topic], listener=_Listener(self, consumer, shared))
        # A group whose leader joins before it knows the topic may be left without an assignment.
        consumer.partitions_for_topic(self.topic)
        paused = True
        try:
            while not done.is_set():
                if paused and shared.is_set():
                    consumer.resume(*consumer.paused())
                    paused = False
                for records in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                    for record in records:
                        yield record.partition, record.offset
        finally:
            consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Notes a member's partitions, and pauses them until all members have partitions."""

    def __init__(
        self, member: DemoMember, consumer: KafkaConsumer, shared: threading.Event
    ) -> None:
        self._member, self._consumer, self._shared = member, consumer, shared

    def on_partitions_revoked(self, revoked: Iterable[object]) -> None:
        self._member.assigned = frozenset()

    def on_partitions_assigned(self, assigned: Iterable[KafkaPartition]) -> None:
        if not self._shared.is_set():
            self._consumer.pause(*assigned)
        self._member.assigned = frozenset(place.partition for place in assigned)


class ConfluentKafka(DemoMember):
    """A member that uses confluent-kafka."""

    library = "confluent-kafka"

    def poll_until(self, shared: threading.Event, done: threading.Event) -> Iterator[Position]:
        """Yield the position of each record until `done` is set.  The partitions stay paused until
        `shared` is set, so that all members get partitions before the first record is read."""

        def on_assign(member: Consumer, assigned: list[TopicPartition]) -> None:
            member.assign(assigned)
            if not shared.is_set():
                member.pause(assigned)
            self.assigned = frozenset(place.partition for place in assigned)

        def on_revoke(member: Consumer, _: list[TopicPartition]) -> None:
            self.assigned = frozenset()
            member.unassign()

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self.topic], on_assign=on_assign, on_revoke=on_revoke)
        paused = True
        try:
            while not done.is_set():
                if paused and shared.is_set():
                    consumer.resume(consumer.assignment())
                    paused = False
                for message in consumer.consume(BATCH_RECORDS, POLL_S):
                    if error := message.error():
                        raise GroupError(f"{self.library}: {error}")
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None  # only an undelivered message has neither
                    assert offset is not None
                    yield partition, offset
        finally:
            consumer.close()


def consume(
    bootstrap: str,
    topic: str,
    group: str,
    expected: int,
    partitions: int,
    progress: Callable[[int], None],
) -> list[DemoMember]:
    """Let three members consume `expected` records, and return the members.

    Raises GroupError if records are missing or repeated, or if a member gets no partition.
    """
    classes = (KafkaPython, KafkaPython, ConfluentKafka)
    members: list[DemoMember] = [class_(bootstrap, topic, group) for class_ in classes]
    shared, done = threading.Event(), threading.Event()
    threads = [threading.Thread(target=member.run, args=(shared, done)) for member in members]
    for thread in threads:
        thread.start()
    try:
        _wait_for_shares(members, partitions)
        shared.set()
        _wait(members, expected, progress)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    _check(members, expected)
    return members


def _wait_for_shares(members: list[DemoMember], partitions: int) -> None:
    """Wait until all members have partitions and no partition is shared, or a member failed."""
    deadline = time.monotonic() + STALL_S
    while not any(member.failure for member in members):
        shares = [member.assigned for member in members]
        if all(shares) and sum(map(len, shares)) == len(frozenset().union(*shares)) == partitions:
            return
        if time.monotonic() > deadline:
            assigned = ", ".join(f"{m.library} {sorted(m.assigned)}" for m in members)
            raise GroupError(f"the group did not assign all {partitions} partitions: {assigned}")
        time.sleep(POLL_S)


def _wait(members: list[DemoMember], expected: int, progress: Callable[[int], None]) -> None:
    """Wait for `expected` records, until none arrives for STALL_S or a member fails."""
    received = 0
    last_change = time.monotonic()
    while received < expected and time.monotonic() - last_change < STALL_S:
        if any(member.failure for member in members):
            return
        time.sleep(POLL_S)
        now = sum(len(member.positions) for member in members)
        if now != received:
            received, last_change = now, time.monotonic()
            progress(received)


def _check(members: list[DemoMember], expected: int) -> None:
    """Raise GroupError if a member failed, or if the group did not receive each record exactly
    once."""
    for member in members:
        if member.failure is not None:
            raise GroupError(f"{member.library} failed: {member.failure}") from member.failure
    total = sum(len(member.positions) for member in members)
    distinct = len(set[Position]().union(*(member.positions for member in members)))
    if (total, distinct) != (expected, expected):
        raise GroupError(
            f"{expected} records were produced; the group received {total} ({distinct} different)"
        )


def committed(bootstrap: str, topic: str, group: str) -> int:
    """The sum of the group's committed offsets over the topic's partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = [ConsumerGroupTopicPartitions(group)]
    offsets = admin.list_consumer_group_offsets(request)[group].result(STALL_S)
    return sum(place.offset for place in offsets.topic_partitions if place.topic == topic)
