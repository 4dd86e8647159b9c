"""Tests that each client reads what another one wrote, and that groups may mix clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import NamedTuple, cast

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor as KafkaPythonRoundRobin,
)

from tests.clients import aio, librdkafka
from tests.clients.librdkafka import TIMEOUT_S, create_topic

pytestmark = pytest.mark.slow

CODECS = (None, "gzip", "snappy", "lz4", "zstd")


class Record(NamedTuple):
    """A record as every client must read it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


RECORDS = [
    Record(b"key", b"value", (("a", b"1"), ("a", b"2"), ("\N{GREEK SMALL LETTER ALPHA}", b"")), 1),
    Record(None, b"", (), 1_600_000_000_000),
    Record(b"gone", None, (("why", b"\0\xff"),), 1_700_000_000_000),
    *(Record(b"k%d" % n, b"v" * n * 10, (), 1_700_000_000_000 - n) for n in range(100)),
]


def by_confluent(bootstrap: str, topic: str, codec: str | None) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50}
    producer = confluent_kafka.Producer({**settings, "compression.type": codec or "none"})
    errors: list[confluent_kafka.KafkaError | None] = []

    def delivered(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        errors.append(error)

    for key, value, headers, timestamp_ms in RECORDS:
        producer.produce(
            topic, value, key, timestamp=timestamp_ms, headers=list(headers), on_delivery=delivered
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * len(RECORDS)


def by_kafka_python(bootstrap: str, topic: str, codec: str | None) -> None:
    with kafka.KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=50
    ) as producer:
        sent = [
            producer.send(topic, value, key, headers=list(headers), timestamp_ms=timestamp_ms)
            for key, value, headers, timestamp_ms in RECORDS
        ]
        producer.flush()
        assert all(future.succeeded() for future in sent)


def by_aiokafka(bootstrap: str, topic: str, codec: str | None) -> None:
    async def steps() -> None:
        settings = {"compression_type": codec, "linger_ms": 50}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = []
            for key, value, headers, timestamp_ms in RECORDS:
                given = {"headers": list(headers), "timestamp_ms": timestamp_ms}
                sent.append(await producer.send(topic, value, key, **given))
            await asyncio.gather(*sent)

    aio.run(steps)


def read_by_confluent(bootstrap: str, topic: str) -> list[Record]:
    with librdkafka.consumer(bootstrap, topic, **{"check.crcs": True}) as reader:
        reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        return [
            Record(each.key(), each.value(), headers_of(each), each.timestamp()[1])
            for each in librdkafka.take(reader, len(RECORDS))
        ]


def headers_of(message: confluent_kafka.Message) -> tuple[tuple[str, bytes], ...]:
    """The headers as pairs; the type also allows a dictionary and text."""
    return tuple(cast(list[tuple[str, bytes]], message.headers() or []))


def read_by_kafka_python(bootstrap: str, topic: str) -> list[Record]:
    with kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, consumer_timeout_ms=int(TIMEOUT_S * 1000)
    ) as reader:
        partition = kafka.TopicPartition(topic, 0)
        reader.assign([partition])
        reader.seek(partition, 0)
        return [
            Record(each.key, each.value, tuple(each.headers), each.timestamp)
            for _, each in zip(RECORDS, reader, strict=False)
        ]


def read_by_aiokafka(bootstrap: str, topic: str) -> list[Record]:
    found: list[Record] = []

    async def steps() -> None:
        async with aio.consumer(bootstrap, None, topic) as reader:
            found.extend(
                Record(each.key, each.value, tuple(each.headers), each.timestamp)
                for each in await aio.take(reader, len(RECORDS))
            )

    aio.run(steps)
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", [by_confluent, by_kafka_python, by_aiokafka])
def test_records_of_one_client_are_read_by_every_client(
    bootstrap: str, unique: str, write: Callable[[str, str, str | None], None], codec: str | None
) -> None:
    create_topic(bootstrap, unique)
    write(bootstrap, unique, codec)
    for read in (read_by_confluent, read_by_kafka_python, read_by_aiokafka):
        assert read(bootstrap, unique) == RECORDS, read.__name__


class Member:
    """A group member that polls in its own thread until it is stopped."""

    def __init__(self, work: Callable[[Member], None]) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.stopped = Event()
        self.failed: list[Exception] = []
        self._thread = Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Callable[[Member], None]) -> None:
        try:
            work(self)
        except Exception as error:
            self.failed.append(error)  # raised where the member is stopped

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        for error in self.failed:
            raise error


def confluent_member(bootstrap: str, name: str) -> Callable[[Member], None]:
    def work(member: Member) -> None:
        settings = {"partition.assignment.strategy": "roundrobin", "heartbeat.interval.ms": 300}
        with librdkafka.consumer(bootstrap, name, **settings) as reader:
            reader.subscribe([name])
            while not member.stopped.is_set():
                reader.poll(0.05)
                member.partitions = frozenset(each.partition for each in reader.assignment())

    return work


def kafka_python_member(bootstrap: str, name: str) -> Callable[[Member], None]:
    def work(member: Member) -> None:
        with kafka.KafkaConsumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=name,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[KafkaPythonRoundRobin],
        ) as reader:
            # Joined before it knows the topic, it joins again; and if a poll ends before that
            # second answer is there, it forgets it, and sends no heartbeat ever after.
            reader.partitions_for_topic(name)
            while not member.stopped.is_set():
                reader.poll(50)
                member.partitions = frozenset(each.partition for each in reader.assignment())

    return work


def aiokafka_member(bootstrap: str, name: str) -> Callable[[Member], None]:
    def work(member: Member) -> None:
        async def steps() -> None:
            strategy = {"partition_assignment_strategy": (RoundRobinPartitionAssignor,)}
            async with aio.consumer(
                bootstrap, name, name, heartbeat_interval_ms=300, **strategy
            ) as reader:
                while not member.stopped.is_set():
                    await reader.getmany(timeout_ms=50)
                    member.partitions = frozenset(each.partition for each in reader.assignment())

        asyncio.run(steps())

    return work


@contextmanager
def running(work: Callable[[Member], None]) -> Iterator[Member]:
    member = Member(work)
    try:
        yield member
    finally:
        member.stop()


def wait_for(condition: Callable[[], bool], *members: Member) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        held = [sorted(each.partitions) for each in members]
        assert time.monotonic() < deadline, f"not within the time limit: {held}"
        time.sleep(0.02)


@pytest.mark.parametrize("leader", [confluent_member, kafka_python_member, aiokafka_member])
def test_group_with_members_of_three_clients_reads_everything(
    bootstrap: str, unique: str, leader: Callable[[str, str], Callable[[Member], None]]
) -> None:
    """The first member assigns partitions to the others, which are other clients."""
    create_topic(bootstrap, unique, partitions=6)
    kinds = [confluent_member, kafka_python_member, aiokafka_member]
    others = [kind for kind in kinds if kind is not leader]
    with running(leader(bootstrap, unique)) as first:
        wait_for(lambda: len(first.partitions) == 6, first)
        with ExitStack() as stack:
            members = [stack.enter_context(running(kind(bootstrap, unique))) for kind in others]
            members.append(first)
            wait_for(lambda: [len(each.partitions) for each in members] == [2, 2, 2], *members)
            assert frozenset().union(*(each.partitions for each in members)) == set(range(6))
        wait_for(lambda: len(first.partitions) == 6, first)
