"""Helpers of the tests of share groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Message, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.librdkafka import TIMEOUT_S

AT_ONCE = {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "0"}


def configure_group(bootstrap: str, group: str, **settings: str) -> None:
    """Configure a group to start at the first record, and to assign partitions at once."""
    given = AT_ONCE | {name.replace("_", "."): value for name, value in settings.items()}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in given.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


@contextmanager
def share_consumer(
    bootstrap: str, group: str, topic: str, **settings: str
) -> Iterator[ShareConsumer]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    made = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **given})
    made.subscribe([topic])
    try:
        yield made
    finally:
        made.close()


def poll(member: ShareConsumer, timeout_s: float = 0.1) -> list[Message]:
    messages = list(member.poll(timeout_s))
    assert [each.error() for each in messages] == [None] * len(messages)
    return messages
