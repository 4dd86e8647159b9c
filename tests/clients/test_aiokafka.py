"""Tests aiokafka with its default settings: produce, consume, commit, resume."""

from __future__ import annotations

import time

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic

from tests.clients.aio import (
    admin_client,
    consumer,
    create_topic,
    produce,
    run,
    take,
    until,
    values,
)

pytestmark = pytest.mark.slow


def test_consumer_resumes_at_its_committed_offset(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 100)
        async with consumer(bootstrap, unique, unique) as first:
            assert values(await take(first, 60)) == list(range(60))
        await produce(bootstrap, unique, 10)
        async with consumer(bootstrap, unique, unique) as second:
            assert await second.committed(TopicPartition(unique, 0)) == 60
            assert values(await take(second, 50)) == [*range(60, 100), *range(10)]

    run(steps)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_as_written(
    bootstrap: str, unique: str, codec: str | None
) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 300, compression_type=codec, linger_ms=20)
        async with consumer(bootstrap, None, unique) as reader:
            assert values(await take(reader, 300)) == list(range(300))

    run(steps)


def test_keys_headers_and_tombstones_are_read_as_written(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        headers = [("a", b"1"), ("a", b"2")]
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(unique, b"value", b"key", headers=headers)
            await producer.send_and_wait(unique, None, b"key")
        async with consumer(bootstrap, None, unique) as reader:
            full, tombstone = await take(reader, 2)
        assert (full.key, full.value, list(full.headers)) == (b"key", b"value", headers)
        assert (tombstone.key, tombstone.value) == (b"key", None)

    run(steps)


def test_idempotent_producer_writes_each_record_once(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 1_000, enable_idempotence=True, max_batch_size=500)
        async with consumer(bootstrap, None, unique) as reader:
            assert values(await take(reader, 1_000)) == list(range(1_000))

    run(steps)


def test_two_members_share_the_partitions(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 4)
        settings = {"heartbeat_interval_ms": 300}
        async with consumer(bootstrap, unique, unique, **settings) as first:
            assert len(first.assignment()) == 4
            async with consumer(bootstrap, unique, unique, **settings) as second:
                await until(lambda: len(first.assignment()) == 2 == len(second.assignment()))
                assert not first.assignment() & second.assignment()
            await until(lambda: len(first.assignment()) == 4)

    run(steps)


def test_offsets_by_timestamp_and_ends_are_reported(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        start_ms = int(time.time() * 1000) - 100_000
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(20):
                stamp = start_ms + number * 1000
                await producer.send_and_wait(unique, b"v", timestamp_ms=stamp)
        partition = TopicPartition(unique, 0)
        async with consumer(bootstrap, None) as reader:
            found = (await reader.offsets_for_times({partition: start_ms + 4_001}))[partition]
            assert (found.offset, found.timestamp) == (5, start_ms + 5_000)
            assert await reader.beginning_offsets([partition]) == {partition: 0}
            assert await reader.end_offsets([partition]) == {partition: 20}

    run(steps)


def test_admin_client_creates_and_describes_topics(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        async with admin_client(bootstrap) as admin:
            await admin.create_topics([NewTopic(unique, 2, 1)])
            (described,) = await admin.describe_topics([unique])
            assert len(described["partitions"]) == 2
            cluster = await admin.describe_cluster()
            assert len(cluster["brokers"]) == 1
            await admin.delete_topics([unique])
            assert unique not in await admin.list_topics()

    run(steps)
