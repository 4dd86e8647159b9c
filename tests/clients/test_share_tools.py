"""Tests kafka-share-groups.sh and kafka-console-share-consumer.sh with default settings."""

from __future__ import annotations

import re

import pytest

from tests.clients.librdkafka import create_topic, produce
from tests.clients.share_groups.consumers import configure_group
from tests.clients.test_java_tools import TOOLS, Tool, lines, tool

__all__ = ["tool"]

GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_share_groups_are_described_reset_and_deleted(
    tool: Tool, bootstrap: str, unique: str
) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 5)
    group = ["--group", unique]
    configure_group(bootstrap, unique)
    assert lines(tool(CONSUMER, "--topic", unique, *group, "--max-messages", 5)) == list("01234")
    _, row = lines(tool(GROUPS, "--describe", *group, "--offsets", "--verbose"))
    assert row.split() == [unique, unique, "0", "0", "0", "0"]
    assert re.search(rf"{unique}.*Empty", tool(GROUPS, "--list", "--state"))
    reset = ["--reset-offsets", *group, "--topic", unique, "--execute"]
    _, row = lines(tool(GROUPS, *reset, "--to-earliest"))
    assert row.split() == [unique, unique, "0", "0"]
    assert "Successful" in tool(GROUPS, "--delete-offsets", *group, "--topic", unique)
    assert "was successful" in tool(GROUPS, "--delete", *group)
