"""Tests aiokafka as a transactional producer, with readers of its topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import ProducerFenced

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
PARTITIONS = 3

T = TypeVar("T")


def run(steps: Callable[[], Awaitable[None]]) -> None:
    """Run an asyncio test, since aiokafka does not support trio."""
    asyncio.run(asyncio.wait_for(steps(), 3 * TIMEOUT_S))


async def eventually(look: Callable[[], Awaitable[T]], expected: T) -> None:
    """Wait for the expected result, since Apache Kafka ends transactions after its response."""
    found = await look()
    while found != expected:  # `run` bounds it
        found = await look()


async def create_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await admin.close()


@asynccontextmanager
async def transactional(bootstrap: str, transactional_id: str) -> AsyncIterator[AIOKafkaProducer]:
    """A producer that can begin a transaction."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def send(producer: AIOKafkaProducer, topic: str, numbers: range) -> None:
    """Send one record for each number, to the partitions in turn; each must be acknowledged."""
    for number in numbers:
        await producer.send_and_wait(topic, str(number).encode(), partition=number % PARTITIONS)


async def seen(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[int]:
    """All numbers up to the end of each partition that the isolation level shows."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    await consumer.start()
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(partitions)
    numbers: list[int] = []
    while any([await consumer.position(each) < ends[each] for each in partitions]):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            numbers += [int(record.value or b"-1") for record in records]
    await consumer.stop()
    return sorted(numbers)


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with transactional(bootstrap, unique) as producer:
            for transaction in range(4):
                await producer.begin_transaction()
                await send(producer, unique, range(transaction * 6, transaction * 6 + 6))
                if transaction % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        await eventually(partial(seen, bootstrap, unique), [*range(6), *range(12, 18)])
        assert await seen(bootstrap, unique, "read_uncommitted") == list(range(24))

    run(steps)


def test_exception_in_a_transaction_aborts_it(bootstrap: str, unique: str) -> None:
    async def send_and_fail(producer: AIOKafkaProducer) -> None:
        async with producer.transaction():
            await send(producer, unique, range(3))
            assert await seen(bootstrap, unique) == []
            raise ZeroDivisionError

    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with transactional(bootstrap, unique) as producer:
            with pytest.raises(ZeroDivisionError):
                await send_and_fail(producer)
            async with producer.transaction():
                await send(producer, unique, range(3, 6))
        await eventually(partial(seen, bootstrap, unique), [3, 4, 5])

    run(steps)


def test_second_producer_of_a_transactional_id_fences_the_first(
    bootstrap: str, unique: str
) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with transactional(bootstrap, unique) as first:
            await first.begin_transaction()
            await send(first, unique, range(3))
            async with transactional(bootstrap, unique) as second, second.transaction():
                await send(second, unique, range(10, 13))
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        await eventually(partial(seen, bootstrap, unique), [10, 11, 12])

    run(steps)


def test_offsets_are_committed_only_with_the_transaction(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        partition = TopicPartition(unique, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=unique)
        await consumer.start()
        async with transactional(bootstrap, unique) as producer:
            for commit in (False, True):
                await producer.begin_transaction()
                await send(producer, unique, range(6))
                await producer.send_offsets_to_transaction({partition: 2}, unique)
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
                await eventually(partial(consumer.committed, partition), 2 if commit else None)
        await consumer.stop()

    run(steps)
