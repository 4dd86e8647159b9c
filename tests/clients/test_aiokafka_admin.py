"""Tests aiokafka's admin client: topics, configs, partitions, groups."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import OffsetAndMetadata, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, OffsetOutOfRangeError

from tests.clients.aio import admin_client, consumer, create_topic, produce, run, take

pytestmark = pytest.mark.slow

TOPIC_ALREADY_EXISTS = 36
INVALID_TOPIC_EXCEPTION = 17
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40


def codes(response: Any) -> dict[str, int]:  # noqa: ANN401 - aiokafka has no types
    """The error code by topic of a CreateTopics response."""
    return {row[0]: row[1] for row in response.topic_errors}


def test_invalid_topics_are_refused(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique)
        bad = [
            (NewTopic(unique, 1, 1), TOPIC_ALREADY_EXISTS),
            (NewTopic("no spaces", 1, 1), INVALID_TOPIC_EXCEPTION),
            (NewTopic(f"{unique}-a", 0, 1), INVALID_PARTITIONS),
            (NewTopic(f"{unique}-b", 1, 1000), INVALID_REPLICATION_FACTOR),
            (NewTopic(f"{unique}-c", 1, 1, topic_configs={"no.such": "1"}), INVALID_CONFIG),
        ]
        async with admin_client(bootstrap) as admin:
            for topic, code in bad:
                assert codes(await admin.create_topics([topic])) == {topic.name: code}
            assert not {topic.name for topic, _ in bad[1:]} & set(await admin.list_topics())

    run(steps)


def test_validate_only_creates_no_topic(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        async with admin_client(bootstrap) as admin:
            response = await admin.create_topics([NewTopic(unique, 1, 1)], validate_only=True)
            assert codes(response) == {unique: 0}
            assert unique not in await admin.list_topics()

    run(steps)


def test_configs_are_described_and_altered(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, config={"retention.ms": "1000"})
        async with admin_client(bootstrap) as admin:

            async def value_of(name: str) -> str | None:
                resource = ConfigResource(ConfigResourceType.TOPIC, unique)
                (response,) = await admin.describe_configs([resource])
                values = {entry[0]: entry[1] for entry in response.resources[0][4]}
                found: str | None = values[name]
                return found

            assert await value_of("retention.ms") == "1000"
            new = {"retention.bytes": "77"}
            resource = ConfigResource(ConfigResourceType.TOPIC, unique, configs=new)
            await admin.alter_configs([resource])
            assert await value_of("retention.bytes") == "77"
            assert await value_of("retention.ms") == "604800000"  # AlterConfigs replaces all

    run(steps)


def test_partitions_can_be_added_but_not_removed(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 2)
        async with admin_client(bootstrap) as admin:
            await admin.create_partitions({unique: NewPartitions(4)})
            for count in (4, 3):
                with pytest.raises(InvalidPartitionsError):
                    await admin.create_partitions({unique: NewPartitions(count)})
            (described,) = await admin.describe_topics([unique])
            assert sorted(each["partition"] for each in described["partitions"]) == [0, 1, 2, 3]

    run(steps)


def test_records_before_an_offset_are_deleted(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 10)
        there = TopicPartition(unique, 0)
        async with admin_client(bootstrap) as admin, consumer(bootstrap, None) as reader:
            assert await admin.delete_records({there: RecordsToDelete(4)}) == {there: 4}
            assert await admin.delete_records({there: RecordsToDelete(-1)}) == {there: 10}
            assert await reader.beginning_offsets([there]) == {there: 10}
            with pytest.raises(OffsetOutOfRangeError):
                await admin.delete_records({there: RecordsToDelete(11)})

    run(steps)


def test_offsets_are_listed_for_some_and_for_all_partitions(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await create_topic(bootstrap, unique, 3)
        first, second, third = (TopicPartition(unique, number) for number in range(3))
        async with consumer(bootstrap, unique) as member, admin_client(bootstrap) as admin:
            member.assign([first, second])
            await member.commit({first: 5, second: (7, "why")})
            found = await admin.list_consumer_group_offsets(unique)
            assert found == {first: OffsetAndMetadata(5, ""), second: OffsetAndMetadata(7, "why")}
            some = await admin.list_consumer_group_offsets(unique, partitions=[second, third])
            assert some == {second: OffsetAndMetadata(7, "why"), third: OffsetAndMetadata(-1, "")}

    run(steps)


def test_unknown_group_and_empty_group_are_described(bootstrap: str, unique: str) -> None:
    async def steps() -> None:
        await produce(bootstrap, unique, 2)
        async with consumer(bootstrap, unique, unique) as member:
            await take(member, 2)
        async with admin_client(bootstrap) as admin:
            states = {}
            for group in (unique, f"{unique}-nobody"):
                (response,) = await admin.describe_consumer_groups([group])
                states[group] = response.groups[0][2]
            assert states == {unique: "Empty", f"{unique}-nobody": "Dead"}
            assert await admin.list_consumer_group_offsets(f"{unique}-nobody") == {}

    run(steps)
