"""The list of topics, and the page of one topic."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from kwire.client.cluster import Cluster
from kwire.client.configs import Source, source_name
from kwire.codecs.messages.describe_configs import DescribeConfigsResourceResult
from kwire.console.cluster.topics import (
    PartitionDetail,
    TopicDetail,
    TopicNumbers,
    TopicOverview,
    is_changed,
    known_topics,
    sizes_by_topic,
    topic_detail,
    topic_numbers,
)
from kwire.console.history.sampler import TOPIC_RATE, TOPIC_SIZE, TopicNow
from kwire.console.listing import ShownTable, TableColumn, TableState, shown_table
from kwire.console.site import SitePage, Visit
from kwire.console.views.plots import all_topics, sampler_of

SHOW_INTERNAL = "internal"
ONLY_CHANGED = "changed"
SIZE = "size"
"""The column of the list that is sorted by sizes asked for then."""
SOURCE_LABELS: dict[int, str] = {
    Source.TOPIC: "topic",
    Source.DYNAMIC_BROKER: "broker, dynamic",
    Source.DYNAMIC_DEFAULT_BROKER: "all brokers, dynamic",
    Source.STATIC_BROKER: "broker's file",
    Source.DEFAULT: "default",
}


class TopicRow(NamedTuple):
    """A topic in the list, with its last sample."""

    topic: TopicOverview
    now: TopicNow | None
    """None before the first sample that has the topic."""
    size_bytes: int | None = None
    """Bytes of all replicas; only lists that are sorted by it have it."""

    @property
    def rate(self) -> float | None:
        return None if self.now is None else self.now.records_per_s

    @property
    def groups(self) -> list[tuple[str, int | None]]:
        """The groups with an offset in the topic, and their lag, the highest first."""
        lags = {} if self.now is None else self.now.lags
        return sorted(lags.items(), key=lambda each: (-(each[1] or 0), each[0]))

    @property
    def lag(self) -> int | None:
        """The highest lag of a group."""
        lags = () if self.now is None else self.now.lags.values()
        return max((lag for lag in lags if lag is not None), default=None)


TOPIC_COLUMNS: tuple[TableColumn[TopicRow], ...] = (
    TableColumn("name", "Topic", lambda row: row.topic.name),
    TableColumn("partitions", "Partitions", lambda row: row.topic.partitions, is_number=True),
    TableColumn("replicas", "Replicas", lambda row: row.topic.replication_factor, is_number=True),
    TableColumn(
        "records", "Records", is_number=True,
        title="Offsets from start to end; compaction and transactions leave gaps",
    ),
    TableColumn(
        SIZE, "Size", lambda row: row.size_bytes, is_number=True,
        title="Bytes of all replicas",
    ),
    TableColumn(
        "rate", "Records/s", lambda row: row.rate, is_number=True,
        title="Records per second that are written",
    ),
    TableColumn(
        "lag", "Groups and their lag", lambda row: row.lag, is_number=True,
        title="Records that each group has not read yet",
    ),
)  # fmt: skip

PARTITION_COLUMNS: tuple[TableColumn[PartitionDetail], ...] = (
    TableColumn("partition", "Partition", lambda row: row.index, is_number=True),
    TableColumn("leader", "Leader", lambda row: row.leader_id, is_number=True),
    TableColumn("replicas", "Replicas"),
    TableColumn("start", "Start", lambda row: row.offsets.start, is_number=True),
    TableColumn("end", "End", lambda row: row.offsets.end, is_number=True),
    TableColumn("records", "Records", lambda row: row.offsets.records, is_number=True),
    TableColumn(
        "size", "Size", lambda row: row.size_bytes, is_number=True, title="Bytes on the leader"
    ),
)

CONFIG_COLUMNS: tuple[TableColumn[DescribeConfigsResourceResult], ...] = (
    TableColumn("config", "Config", lambda config: config.name),
    TableColumn("value", "Value"),
    TableColumn("source", "Set by", lambda config: config.config_source),
    TableColumn("meaning", "Meaning"),
)


def numbers_of(cluster: Cluster, *names: str) -> dict[str, TopicNumbers]:
    """The numbers of the topics on a page of the list."""
    return topic_numbers(cluster, names)


async def topics(visit: Visit) -> Response:
    """The list of topics.  Kafka's internal topics are in it if the URL says so.

    Sizes by which the list is sorted are those that it shows.
    """
    state = visit.table(SHOW_INTERNAL)
    sizes = await visit.cached(sizes_by_topic) if state.sort == SIZE else {}
    shown = _shown(visit, state, (await all_topics(visit.site)).overviews, sizes)
    if state.text and not shown.table.found:
        # Somebody looks for a topic that may be newer than the list that is kept.
        visit.site.pool.forget_results(known_topics)
        shown = _shown(visit, state, (await all_topics(visit.site)).overviews, sizes)
    numbers = await visit.cached(numbers_of, *(row.topic.name for row in shown.table.rows))
    return visit.page("topics.html", numbers=numbers, **shown._asdict())


class ShownTopics(NamedTuple):
    """A page of the list of topics."""

    table: ShownTable[TopicRow]
    hidden: int
    """Internal topics that the list leaves out."""
    shows_internal: bool


def _shown(
    visit: Visit, state: TableState, found: Sequence[TopicOverview], sizes: Mapping[str, int]
) -> ShownTopics:
    """The page of the list that the URL asks for; `sizes` are by topic, if it is sorted by them."""
    shows_internal = visit.query.get(SHOW_INTERNAL) == "yes"
    hidden = 0 if shows_internal else sum(topic.is_internal for topic in found)
    latest = sampler_of(visit.site).latest
    samples = {} if latest is None else latest.topics
    rows = [
        TopicRow(topic, samples.get(topic.name), sizes.get(topic.name))
        for topic in found
        if shows_internal or not topic.is_internal
    ]
    table = shown_table(rows, TOPIC_COLUMNS, state, lambda row: row.topic.name)
    return ShownTopics(table, hidden, shows_internal)


def topic_path(name: str) -> str:
    """The path of a topic's page."""
    return f"/topics/{quote(name, safe='')}"


def topic_values(visit: Visit, tab: str) -> dict[str, Any]:
    """What the head of each page of a topic needs; `tab` is the last part of its path."""
    name = visit.path["topic"]
    return {"name": name, "path": topic_path(name), "tab": tab}


async def topic(visit: Visit) -> Response:
    """The partitions of a topic, with their replicas."""
    detail: TopicDetail = await visit.cached(topic_detail, visit.path["topic"])
    table = shown_table(
        detail.partitions, PARTITION_COLUMNS, visit.table(), lambda row: str(row.index)
    )
    latest = sampler_of(visit.site).latest
    now = None if latest is None else latest.topics.get(detail.overview.name)
    return visit.page(
        "topic.html",
        detail=detail,
        table=table,
        row=TopicRow(detail.overview, now),
        plots=(("Records written", TOPIC_RATE), ("Size of all replicas", TOPIC_SIZE)),
        **topic_values(visit, ""),
    )


async def topic_configs(visit: Visit) -> Response:
    """The configs of a topic, with what differs from the default and what it means."""
    detail: TopicDetail = await visit.cached(topic_detail, visit.path["topic"])
    changed = {config.name for config in detail.configs if is_changed(config)}
    only_changed = visit.query.get(ONLY_CHANGED) == "yes"
    configs = [each for each in detail.configs if not only_changed or each.name in changed]
    table = shown_table(
        configs,
        CONFIG_COLUMNS,
        visit.table(ONLY_CHANGED),
        lambda config: f"{config.name} {config.value or ''}",
    )
    name = visit.path["topic"]
    options = visit.site.command_options
    return visit.page(
        "topic_configs.html",
        table=table,
        trouble=detail.configs_trouble,
        changed=changed,
        only_changed=only_changed,
        sources={each.name: source_label(each.config_source) for each in detail.configs},
        command=f"kwire configs alter topic {shlex.quote(name)} --set NAME=VALUE{options}",
        **topic_values(visit, "/configs"),
    )


def source_label(source: int) -> str:
    """Where a config's value comes from, in words."""
    return SOURCE_LABELS.get(source, source_name(source))


PAGES = (
    SitePage("/topics", topics, label="Topics", position=10),
    SitePage("/topics/{topic}", topic),
    SitePage("/topics/{topic}/configs", topic_configs),
)
