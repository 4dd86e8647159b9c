"""Tests further features of aiokafka's consumer: positions, limits, membership, errors."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection

import pytest
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tests.clients.aio import (
    TIMEOUT_S,
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

SESSION_TIMEOUT_MS = 6000
"""The smallest value that a broker allows (`group.min.session.timeout.ms`)."""
BRISK = {"heartbeat_interval_ms": 300, "metadata_max_age_ms": 300}


class Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Counts assignments, and collects revoked partitions."""

    def __init__(self) -> None:
        self.assigned = 0
        self.revoked: list[Collection[TopicPartition]] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.revoked.append(revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.assigned += 1


def test_consumer_seeks_and_reports_positions(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        partition = TopicPartition(unique, 0)
        await produce(bootstrap, unique, 20)
        async with consumer(bootstrap, unique, unique) as reader:
            reader.seek(partition, 15)
            assert values(await take(reader, 2)) == [15, 16]
            assert await reader.position(partition) == 17
            assert reader.highwater(partition) == 20
            await reader.commit()
            await reader.seek_to_beginning(partition)
            assert values(await take(reader, 2)) == [0, 1]
            await reader.seek_to_committed(partition)
            assert values(await take(reader, 1)) == [17]
            await reader.seek_to_end(partition)
            assert await reader.position(partition) == 20
            await produce(bootstrap, unique, 1)
            assert values(await take(reader, 1)) == [0]

    run(steps)


def test_paused_partitions_return_no_records(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 2)
        paused, running = (TopicPartition(unique, number) for number in range(2))
        async with consumer(bootstrap, None) as reader:
            reader.assign([paused, running])
            reader.pause(paused)
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                for number in range(10):
                    await producer.send_and_wait(unique, str(number).encode(), partition=number % 2)
            assert values(await take(reader, 5)) == [1, 3, 5, 7, 9]
            assert await reader.getmany(timeout_ms=100) == {}
            reader.resume(paused)
            assert values(await take(reader, 5)) == [0, 2, 4, 6, 8]

    run(steps)


def test_getone_without_records_ends_at_the_callers_timeout(bootstrap: str, unique: str) -> None:
    """The broker holds the fetch for half a second; the caller's timeout is shorter."""

    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with consumer(bootstrap, None, unique, fetch_min_bytes=100_000) as reader:
            began = time.monotonic()
            assert await reader.getmany(timeout_ms=200) == {}
            assert 0.15 < time.monotonic() - began < TIMEOUT_S / 2
            await produce(bootstrap, unique, 3)
            assert values(await take(reader, 3)) == [0, 1, 2]

    run(steps)


def test_record_larger_than_the_fetch_size_is_returned(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        sizes = [900_000, 10, 500_000, 800_000]
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for size in sizes:
                await producer.send_and_wait(unique, bytes(size))
        limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
        async with consumer(bootstrap, None, unique, **limits) as reader:
            assert [len(record.value) for record in await take(reader, 4)] == sizes

    run(steps)


def test_record_larger_than_the_topic_allows_is_refused(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, config={"max.message.bytes": "2000"})
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(unique, bytes(3000))
            assert (await producer.send_and_wait(unique, bytes(1000))).offset == 0

    run(steps)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_are_acknowledged_with_each_value_of_acks(
    bootstrap: str, unique: str, acks: int | str
) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        await produce(bootstrap, unique, 50, acks=acks)
        async with consumer(bootstrap, None, unique) as reader:
            assert values(await take(reader, 50)) == list(range(50))

    run(steps)


def test_batches_built_by_the_caller_are_written(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for first in (0, 100):
                batch = producer.create_batch()
                for number in range(first, first + 100):
                    assert batch.append(key=None, value=str(number).encode(), timestamp=None)
                sent = await producer.send_batch(batch, unique, partition=0)
                assert (await asyncio.wait_for(sent, TIMEOUT_S)).offset == first
        async with consumer(bootstrap, None, unique) as reader:
            assert values(await take(reader, 200)) == list(range(200))

    run(steps)


def test_log_append_time_is_the_time_of_the_broker(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, config={"message.timestamp.type": "LogAppendTime"})
        before_ms = int(time.time() * 1000)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            sent = await producer.send_and_wait(unique, b"1", timestamp_ms=1_000)
        async with consumer(bootstrap, None, unique) as reader:
            (record,) = await take(reader, 1)
        assert (record.timestamp_type, sent.timestamp_type) == (1, 1)
        assert before_ms <= record.timestamp == sent.timestamp <= int(time.time() * 1000)

    run(steps)


def test_offsets_are_committed_one_by_one_with_metadata(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 2)
        kept, other = (TopicPartition(unique, number) for number in range(2))
        async with consumer(bootstrap, unique, enable_auto_commit=False) as reader:
            reader.assign([kept, other])
            await reader.commit({kept: (7, "why")})
            assert await reader.committed(kept) == 7
            assert await reader.committed(other) is None
        async with admin_client(bootstrap) as admin:
            offsets = await admin.list_consumer_group_offsets(unique)
            assert offsets == {kept: OffsetAndMetadata(7, "why")}

    run(steps)


def test_positions_are_committed_automatically(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 10)
        partition = TopicPartition(unique, 0)
        settings = {"auto_commit_interval_ms": 100}
        async with (
            consumer(bootstrap, unique, unique, **settings) as reader,
            admin_client(bootstrap) as admin,
        ):
            await take(reader, 4)
            expected = {partition: OffsetAndMetadata(4, "")}
            found = None
            while found != expected:  # `run` bounds it
                found = await admin.list_consumer_group_offsets(unique)

    run(steps)


def test_offset_out_of_range_is_reported_without_a_reset_policy(
    bootstrap: str, unique: str
) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 5)
        partition = TopicPartition(unique, 0)
        async with consumer(bootstrap, None, auto_offset_reset="none") as reader:
            reader.assign([partition])
            reader.seek(partition, 100)
            with pytest.raises(OffsetOutOfRangeError):
                await asyncio.wait_for(reader.getone(), TIMEOUT_S)
            reader.seek(partition, 4)
            assert values(await take(reader, 1)) == [4]

    run(steps)


def test_reader_continues_after_deleted_records(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 20)
        partition = TopicPartition(unique, 0)
        async with (
            admin_client(bootstrap) as admin,
            consumer(bootstrap, None, unique, auto_offset_reset="earliest") as reader,
        ):
            found = await admin.delete_records({partition: RecordsToDelete(12)})
            assert found == {partition: 12}
            assert await reader.beginning_offsets([partition]) == {partition: 12}
            reader.seek(partition, 3)
            assert values(await take(reader, 8)) == list(range(12, 20))

    run(steps)


def test_read_committed_returns_all_records_without_transactions(
    bootstrap: str, unique: str
) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 30, enable_idempotence=True)
        async with consumer(bootstrap, None, unique, isolation_level="read_committed") as reader:
            assert values(await take(reader, 30)) == list(range(30))
            assert reader.last_stable_offset(TopicPartition(unique, 0)) == 30

    run(steps)


def test_pattern_subscription_finds_topics_created_later(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, f"{unique}-a", 1)
        async with consumer(bootstrap, unique, **BRISK) as reader:
            reader.subscribe(pattern=f"^{unique}-.$")
            assert [record.topic for record in await take(reader, 1)] == [f"{unique}-a"]
            await produce(bootstrap, f"{unique}-other", 1)
            await produce(bootstrap, f"{unique}-b", 1)
            assert [record.topic for record in await take(reader, 1)] == [f"{unique}-b"]

    run(steps)


def test_added_partitions_are_assigned_and_read(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with (
            admin_client(bootstrap) as admin,
            consumer(bootstrap, unique, unique, **BRISK) as reader,
        ):
            await admin.create_partitions({unique: NewPartitions(3)})
            await until(lambda: len(reader.assignment()) == 3)
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                await producer.send_and_wait(unique, b"9", partition=2)
            (record,) = await take(reader, 1)
            assert (record.partition, record.value) == (2, b"9")

    run(steps)


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda kind: str(kind.name),
)
def test_three_members_share_partitions_and_give_them_back(
    bootstrap: str, unique: str, assignor: type[AbstractPartitionAssignor]
) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 6)
        settings = {"partition_assignment_strategy": (assignor,), **BRISK}
        async with consumer(bootstrap, unique, unique, **settings) as first:
            async with (
                consumer(bootstrap, unique, unique, **settings) as second,
                consumer(bootstrap, unique, unique, **settings) as third,
            ):
                members = (first, second, third)
                await until(lambda: [len(each.assignment()) for each in members] == [2, 2, 2])
                held = first.assignment() | second.assignment() | third.assignment()
                assert {partition.partition for partition in held} == set(range(6))
            await until(lambda: len(first.assignment()) == 6)

    run(steps)


def test_static_member_returns_without_a_rebalance(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 2)
        watched = Rebalances()

        def member(name: str) -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=unique,
                group_instance_id=name,
                session_timeout_ms=60_000,  # which ends for no busy machine
                **BRISK,
            )

        stays, restarts, again = member("stays"), member("restarts"), member("restarts")
        for each in (stays, restarts):
            await each.start()
            each.subscribe([unique], listener=watched if each is stays else None)
        await until(lambda: len(stays.assignment()) == 1 == len(restarts.assignment()))
        held, before = restarts.assignment(), watched.assigned
        await restarts.stop()
        await again.start()
        again.subscribe([unique])
        await until(lambda: again.assignment() == held)
        assert watched.assigned == before
        for each in (again, stays):
            await each.stop()

    run(steps)


MEMBER = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer

async def main(bootstrap, group, topic, session_timeout_ms):
    member = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group,
        session_timeout_ms=int(session_timeout_ms), heartbeat_interval_ms=300,
    )
    await member.start()
    print("joined", flush=True)
    await member.getone()

asyncio.run(main(*sys.argv[1:]))
"""
"""The program of a member in a process of its own."""


def test_partitions_of_a_killed_member_go_to_another(bootstrap: str, unique: str) -> None:
    """The group notices it only at its session timeout, since it did not leave."""

    async def steps() -> None:
        await create_topic(bootstrap, unique, 2)
        timeout_ms = str(SESSION_TIMEOUT_MS)
        async with consumer(bootstrap, unique, unique, **BRISK) as stays:
            command = ("-c", MEMBER, bootstrap, unique, unique, timeout_ms)
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdout=asyncio.subprocess.PIPE
            )
            try:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"joined\n"
                await until(lambda: len(stays.assignment()) == 1)
            finally:
                killed = time.monotonic()
                process.kill()
                await process.wait()
            await until(lambda: len(stays.assignment()) == 2)
            assert time.monotonic() - killed > SESSION_TIMEOUT_MS / 1000 / 2

    run(steps)


def test_groups_are_listed_and_described(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        async with (
            consumer(bootstrap, unique, unique, client_id="somebody") as reader,
            admin_client(bootstrap) as admin,
        ):
            await until(lambda: len(reader.assignment()) == 1)
            assert (unique, "consumer") in await admin.list_consumer_groups()
            (response,) = await admin.describe_consumer_groups([unique])
            _, group, state, kind, protocol, members, *_ = response.groups[0]
            assert (group, state, kind, protocol) == (unique, "Stable", "consumer", "roundrobin")
            assert [member[1:3] for member in members] in [
                [("somebody", host)] for host in ("/127.0.0.1", "/0:0:0:0:0:0:0:1")
            ]

    run(steps)
