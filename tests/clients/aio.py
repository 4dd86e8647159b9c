"""Helpers of the tests with aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

TIMEOUT_S = 120.0


def run(steps: Callable[[], Awaitable[None]]) -> None:
    """Run an asyncio test, since aiokafka does not support trio."""
    asyncio.run(asyncio.wait_for(steps(), 3 * TIMEOUT_S))


async def produce(bootstrap: str, topic: str, count: int, **settings: object) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        sent = [await producer.send(topic, str(number).encode()) for number in range(count)]
        for future in sent:
            await asyncio.wait_for(future, TIMEOUT_S)


@asynccontextmanager
async def consumer(
    bootstrap: str, group: str | None, *topics: str, **settings: object
) -> AsyncIterator[AIOKafkaConsumer]:
    made = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id=group,
        **{"auto_offset_reset": "earliest", **settings},
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def take(source: AIOKafkaConsumer, count: int) -> list[ConsumerRecord[bytes, bytes]]:
    return [await asyncio.wait_for(source.getone(), TIMEOUT_S) for _ in range(count)]


def values(records: list[ConsumerRecord[bytes, bytes]]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


@asynccontextmanager
async def admin_client(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    async with admin_client(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "not within the time limit"
        await asyncio.sleep(0.05)
