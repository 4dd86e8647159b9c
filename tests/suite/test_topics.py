"""Tests of an admin client: topics and their configs."""

from __future__ import annotations

from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.polling import until
from tests.suite.clients import TIMEOUT_S, Confluent, Record

SETTINGS = {
    "retention.ms": "60000",
    "retention.bytes": "1000000",
    "cleanup.policy": "compact",
    "max.message.bytes": "2048",
    "segment.bytes": "1048576",
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "zstd",
    "min.compaction.lag.ms": "5000",
    "delete.retention.ms": "7",
}


def setting_of(admin: AdminClient, topic: str, name: str) -> str | None:
    """The value of a config; also None if the broker does not know the topic yet."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        value: str | None = (
            admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name].value
        )
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None
    return value


def is_set(admin: AdminClient, topic: str, name: str, expected: str | None) -> bool:
    return setting_of(admin, topic, name) == expected


def partitions_of(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)


@pytest.mark.parametrize("name", SETTINGS)
def test_topic_is_created_with_a_config(admin: AdminClient, unique: str, name: str) -> None:
    new_topic = NewTopic(unique, 1, 1, config={name: SETTINGS[name]})
    admin.create_topics([new_topic])[unique].result(TIMEOUT_S)
    until(lambda: setting_of(admin, unique, name) == SETTINGS[name])


@pytest.mark.parametrize("name", SETTINGS)
def test_topic_config_is_changed_and_reset(admin: AdminClient, topic: str, name: str) -> None:
    until(lambda: setting_of(admin, topic, name) is not None)
    before = setting_of(admin, topic, name)
    for operation, expected in (
        (AlterConfigOpType.SET, SETTINGS[name]),
        (AlterConfigOpType.DELETE, before),
    ):
        entry = ConfigEntry(name, SETTINGS[name], incremental_operation=operation)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([changed])[changed].result(TIMEOUT_S)
        until(partial(is_set, admin, topic, name, expected))


@pytest.mark.parametrize("wrong", [{"retention.ms": "soon"}, {"cleanup.policy": "never"}])
def test_topic_with_an_invalid_config_is_refused(
    admin: AdminClient, unique: str, wrong: dict[str, str]
) -> None:
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(unique, 1, 1, config=wrong)])[unique].result(TIMEOUT_S)
    assert unique not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize("partitions", [1, 3])
def test_partitions_are_added_to_a_topic(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_partitions([NewPartitions(topic, 7)])[topic].result(TIMEOUT_S)
    until(lambda: partitions_of(admin, topic) == list(range(7)))


def test_deleted_topic_disappears(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics)


@pytest.mark.parametrize("before", [1, 5, 10])
def test_records_before_an_offset_are_deleted(
    admin: AdminClient, bootstrap: str, topic: str, before: int
) -> None:
    client = Confluent(bootstrap)
    client.write(topic, [Record(b"v")] * 10)
    end = TopicPartition(topic, 0, before)
    futures = admin.delete_records([end])
    assert [future.result(TIMEOUT_S).low_watermark for future in futures.values()] == [before]
    assert client.ends(topic, 0) == (before, 10)


@pytest.mark.parametrize("spec", ["earliest", "latest"])
def test_offsets_are_listed_by_spec(
    admin: AdminClient, bootstrap: str, topic: str, spec: str
) -> None:
    Confluent(bootstrap).write(topic, [Record(b"v")] * 4)
    specs = {TopicPartition(topic, 0): getattr(OffsetSpec, spec)()}
    (future,) = admin.list_offsets(specs).values()
    assert future.result(TIMEOUT_S).offset == (0 if spec == "earliest" else 4)
