"""Tools for topics: list, describe, create, add partitions, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from kwire.client.cluster import Cluster
from kwire.client.topics import BROKER_DEFAULT, add_partitions, create_topic, delete_topic
from kwire.codecs.uuids import uuid_text
from kwire.console.assistant.answers import ROWS_MAX, Row, answer, fitted, present
from kwire.console.assistant.tools import ClusterTools, adds, destroys, reads
from kwire.console.cluster.topics import (
    PartitionDetail,
    TopicDetail,
    TopicNumbers,
    TopicOverview,
    is_changed,
    known_topics,
    topic_detail,
    topic_numbers,
)

NAME_LENGTH_MAX: Final = 249
"""As Kafka's names of topics."""
PARTITIONS_MAX: Final = 1_000
"""The most partitions that an assistant can ask for: each costs files on the brokers."""

TopicArgument = Annotated[
    str, Field(description="The name of the topic.", min_length=1, max_length=NAME_LENGTH_MAX)
]


class TopicTools(ClusterTools):
    """Topics with their partitions."""

    def tools(self) -> Iterator[Tool]:
        """See ClusterTools."""
        yield reads(self.list_topics)
        yield reads(self.describe_topic)
        if self._desk.allows_writes:
            yield adds(self.create_topic)
            yield adds(self.add_partitions)
            yield destroys(self.delete_topic)

    async def list_topics(
        self,
        contains: Annotated[
            str, Field(description="Only topics whose name has this text.", max_length=249)
        ] = "",
        internal: Annotated[bool, Field(description="Also Kafka's own topics.")] = False,
        after: Annotated[
            str, Field(description="Go on after this name, when an answer left topics out.")
        ] = "",
        limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 50,
    ) -> CallToolResult:
        """Topics by name, with partitions, replicas, records and bytes.

        `records` counts offsets, which is the most that a topic can have: compaction and
        transactions leave gaps. `size_bytes` is that of all replicas.
        """
        known = await self._desk.ask(known_topics)
        found = [
            topic
            for topic in known.overviews
            if contains in topic.name and topic.name > after and (internal or not topic.is_internal)
        ]
        names = [topic.name for topic in found[:limit]]
        numbers = await self._desk.ask(topic_numbers, names)
        rows, left_out = fitted(found, lambda topic: _topic(topic, numbers), limit=limit)
        return answer({"topics": rows, "left_out": left_out})

    async def describe_topic(
        self,
        topic: TopicArgument,
        first_partition: Annotated[
            int, Field(description="Go on here, when an answer left partitions out.", ge=0)
        ] = 0,
    ) -> CallToolResult:
        """A topic with its partitions, their replicas and offsets, and the configs that it sets."""
        detail = await self._desk.ask(topic_detail, topic)
        partitions = [each for each in detail.partitions if each.index >= first_partition]
        rows, left_out = fitted(partitions, _partition)
        return answer(_detail(detail) | {"partitions": rows, "left_out": left_out})

    async def create_topic(
        self,
        topic: TopicArgument,
        partitions: Annotated[
            int | None,
            Field(description="Null leaves it to the broker.", ge=1, le=PARTITIONS_MAX),
        ] = None,
        replication_factor: Annotated[
            int | None, Field(description="Null leaves it to the broker.", ge=1, le=100)
        ] = None,
        configs: Annotated[
            dict[str, str], Field(description="Such as retention.ms.", max_length=100)
        ] = {},  # noqa: B006 - only read; the schema shows it as the default
    ) -> CallToolResult:
        """Create a topic."""

        def create(cluster: Cluster) -> None:
            create_topic(
                cluster,
                topic,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                configs=configs,
            )

        await self._desk.ask(create)
        return answer({"created": topic})

    async def add_partitions(
        self,
        topic: TopicArgument,
        partitions: Annotated[
            int, Field(description="The new number, all together.", ge=2, le=PARTITIONS_MAX)
        ],
    ) -> CallToolResult:
        """Raise the number of a topic's partitions. Keys may then go to other partitions."""
        await self._desk.ask(add_partitions, topic, partitions)
        return answer({"partitions": partitions})

    async def delete_topic(self, topic: TopicArgument) -> CallToolResult:
        """Delete a topic with all its records. Nothing brings them back."""
        await self._desk.ask(delete_topic, topic)
        return answer({"deleted": topic})


def _topic(topic: TopicOverview, numbers: dict[str, TopicNumbers]) -> Row:
    own = numbers.get(topic.name, TopicNumbers(None, None))
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "records": own.records,
        "size_bytes": own.size_bytes,
    } | present(
        {
            "is_internal": topic.is_internal,
            "without_leader": topic.offline or None,
            "under_replicated": topic.under_replicated or None,
        }
    )


def _detail(detail: TopicDetail) -> Row:
    changed = {
        each.name: None if each.is_sensitive else each.value
        for each in detail.configs
        if is_changed(each)
    }
    return {
        "topic": detail.overview.name,
        "topic_id": uuid_text(detail.topic_id),
        "records": detail.records,
        "size_bytes": detail.size_bytes,
        "own_configs": changed,
    } | present({"configs_trouble": detail.configs_trouble})


def _partition(partition: PartitionDetail) -> Row:
    return {
        "partition": partition.index,
        "leader": partition.leader_id,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.isr),
        "start_offset": partition.offsets.start,
        "end_offset": partition.offsets.end,
        "size_bytes": partition.size_bytes,
    }
