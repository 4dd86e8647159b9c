"""What an assistant reads of a lively cluster, through a real `kwire mcp`."""

from __future__ import annotations

import json
import re

import pytest

from kwire.client.cluster import Cluster
from kwire.testing import Kafka
from tests.console import hostile
from tests.console.assistant.assisted import asked, assistant, refused
from tests.console.lively import GROUPS

pytestmark = pytest.mark.slow

READING_TOOLS = {
    "cluster_health", "check_cluster", "describe_configs", "list_acls", "check_config",
    "list_topics", "describe_topic", "read_messages", "read_record", "list_groups",
    "describe_group", "preview_reset",
}  # fmt: skip
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


async def test_server_without_writes_lists_only_tools_that_read(cluster: Kafka) -> None:
    async with assistant(cluster.bootstrap) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == READING_TOOLS
        for tool in tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint, tool.name
            assert tool.description, tool.name
        text = await refused(client, "delete_topic", topic="orders")
        assert "delete_topic" in text
    with Cluster(cluster.bootstrap) as kafka:
        assert kafka.topic("orders").partitions


async def test_topics_groups_and_health_are_described(cluster: Kafka) -> None:
    async with assistant(cluster.bootstrap) as client:
        listed = await asked(client, "list_topics", contains="or", limit=1)
        orders = await asked(client, "describe_topic", topic="orders", first_partition=4)
        assert [topic["topic"] for topic in listed["topics"]] == ["orders"]
        assert orders["own_configs"] == {"retention.ms": "604800000"}
        assert [each["partition"] for each in orders["partitions"]] == [4, 5]

        groups = await asked(client, "list_groups")
        assert set(GROUPS) <= {each["group"] for each in groups["groups"]}
        group = await asked(client, "describe_group", group=GROUPS.consumer)
        assert group["type"] == "consumer"
        assert group["members"][0]["partitions"]
        assert group["lag"] == sum(each["lag"] or 0 for each in group["partitions"])
        plan = await asked(client, "preview_reset", group=GROUPS.empty, to="earliest")
        assert plan["records_skipped"] == 0

        health = await asked(client, "cluster_health")
        assert [each["leads"] > 0 for each in health["brokers"]] == [True]
        checked = await asked(client, "check_cluster")
        assert checked["any_broker_answered"]
        configs = await asked(client, "describe_configs", kind="topic", name="orders")
        own = [each for each in configs["configs"] if each["name"] == "retention.ms"]
        assert [(each["value"], each["source"]) for each in own] == [
            ("604800000", "DYNAMIC_TOPIC_CONFIG")
        ]
        assert (await asked(client, "list_acls"))["rules"]


async def test_records_are_filtered_decoded_and_continued(cluster: Kafka) -> None:
    async with assistant(cluster.bootstrap) as client:
        first = await asked(client, "read_messages", topic="orders", start="oldest", limit=3)
        assert [len(first["records"]), first["is_complete"]] == [3, False]
        second = await asked(
            client, "read_messages", topic="orders", start="oldest", limit=3,
            continue_at=first["continue_at"],
        )  # fmt: skip
        places = [(each["partition"], each["offset"]) for each in first["records"]]
        assert not {(each["partition"], each["offset"]) for each in second["records"]} & {*places}
        one = first["records"][0]
        where = f"partition = {one['partition']} and offset = {one['offset']}"
        found = await asked(client, "read_messages", topic="orders", where=where)
        assert found["records"] == [one]

        record = await asked(
            client, "read_record", topic="orders", partition=one["partition"],
            offset=one["offset"], values="hex",
        )  # fmt: skip
        raw = bytes.fromhex(record["record"]["value"])
        assert raw.decode() == one["value"]
        gone = await asked(client, "read_record", topic="orders", partition=0, offset=10**9)
        assert gone["record"] is None


async def test_hostile_records_come_back_as_visible_data_of_bounded_length(cluster: Kafka) -> None:
    async with assistant(cluster.bootstrap) as client:
        result = await client.call_tool(
            "read_messages", {"topic": "hostile", "start": "oldest", "limit": 100}
        )
        text = "".join(content.text for content in result.content if content.type == "text")
        assert not result.is_error
        assert len(text) < 100_000
        assert json.loads(text) == result.structured_content
        for each in walk(result.structured_content):
            assert not INVISIBLE.search(each)
        assert hostile.SCRIPT in text.replace('\\"', '"')
        listed = await asked(client, "list_groups", limit=200)
        assert not any(INVISIBLE.search(each) for each in walk(listed))


def walk(value: object) -> list[str]:
    """All texts in a JSON value, names of fields too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in (name, *walk(each))]
    if isinstance(value, list):
        return [text for each in value for text in walk(each)]
    return []


async def test_wrong_argument_is_answered_with_how_to_mend_it(cluster: Kafka) -> None:
    async with assistant(cluster.bootstrap) as client:
        assert "See list_topics" in await refused(client, "describe_topic", topic="ordrs")
        assert "See list_groups" in await refused(client, "describe_group", group="no-group")
        assert "at character 11" in await refused(
            client, "read_messages", topic="orders", where="value.a = = 1"
        )
        assert "it takes topic" in await refused(client, "describe_topic", topic="a", partion=1)
        assert "less than or equal to 100" in await refused(
            client, "read_messages", topic="orders", limit=101
        )
        assert "has no partition 99" in await refused(
            client, "read_messages", topic="orders", partitions="99"
        )
