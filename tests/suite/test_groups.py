"""Tests of groups: assignment, leaving members, and committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.suite.clients import TIMEOUT_S, Confluent, Record, taken

QUICK = {"heartbeat.interval.ms": 200}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range", **QUICK},
    "roundrobin": {"partition.assignment.strategy": "roundrobin", **QUICK},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", **QUICK},
    "consumer": {"group.protocol": "consumer"},
}
Member = Callable[..., Consumer]


@pytest.fixture(params=PROTOCOLS)
def member(
    request: pytest.FixtureRequest, bootstrap: str, topic: str, unique: str
) -> Iterator[Member]:
    """A function that creates members of the test's group, which read its topic."""
    members: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        defaults = {
            "bootstrap.servers": bootstrap,
            "group.id": unique,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer({**defaults, **PROTOCOLS[request.param], **settings})
        consumer.subscribe([topic])
        members.append(consumer)
        return consumer

    yield make
    for consumer in members:
        consumer.close()


def settle(members: list[Consumer], partitions: int) -> list[set[int]]:
    """Poll until the members have all partitions together, and each has at least one."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for consumer in members:
            consumer.poll(0.02)
        held = [{part.partition for part in consumer.assignment()} for consumer in members]
        if all(held) and sorted(chain(*held)) == list(range(partitions)):
            return held
    raise AssertionError(f"partitions are held so: {held}")


@pytest.mark.parametrize("partitions", [2, 5])
class TestRebalance:
    def test_joining_member_gets_partitions(self, member: Member, partitions: int) -> None:
        first = member()
        assert settle([first], partitions) == [set(range(partitions))]
        held = settle([first, member()], partitions)
        assert max(map(len, held)) - min(map(len, held)) <= 1

    def test_leaving_member_gives_its_partitions_back(
        self, member: Member, partitions: int
    ) -> None:
        first, second = member(), member()
        settle([first, second], partitions)
        second.close()
        assert settle([first], partitions) == [set(range(partitions))]


def test_next_member_starts_at_the_committed_offset(
    member: Member, bootstrap: str, topic: str
) -> None:
    Confluent(bootstrap).write(topic, [Record(b"%d" % number) for number in range(10)])
    first = member()
    taken(first, 6)
    first.commit(asynchronous=False)
    first.close()
    assert [message.value() for message in taken(member(), 4)] == [b"6", b"7", b"8", b"9"]


def test_uncommitted_records_are_read_again(member: Member, bootstrap: str, topic: str) -> None:
    Confluent(bootstrap).write(topic, [Record(b"%d" % number) for number in range(3)])
    first = member()
    assert len(taken(first, 3)) == 3
    first.close()
    assert [message.value() for message in taken(member(), 3)] == [b"0", b"1", b"2"]


def test_member_reads_from_the_sought_offset(member: Member, bootstrap: str, topic: str) -> None:
    Confluent(bootstrap).write(topic, [Record(b"%d" % number) for number in range(5)])
    reader = member()
    taken(reader, 5)
    reader.seek(TopicPartition(topic, 0, 3))
    assert [message.value() for message in taken(reader, 2)] == [b"3", b"4"]


def test_committed_offset_is_reported(member: Member, bootstrap: str, topic: str) -> None:
    Confluent(bootstrap).write(topic, [Record(b"v")])
    reader = member()
    taken(reader, 1)
    reader.commit(asynchronous=False)
    (committed,) = reader.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert committed.offset == 1
