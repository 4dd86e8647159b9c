"""A topology: what a streams application reads, keeps and writes.

Subtopologies are connected by topics only.  Beside the topics that others write (source topics)
there are two kinds that the application owns: repartition topics, by which records get from one
subtopology to another, and changelogs, which keep the state of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kwire.codecs.messages import streams_group_describe as described
from kwire.codecs.messages import streams_group_heartbeat as heartbeat
from kwire.codecs.messages.coordinator.streams_group_topology import (
    CopartitionGroup,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from kwire.groups.java import HashTable, string_hash
from kwire.groups.streams.records import TopologyRecord


class InvalidTopology(ValueError):
    """Why a topology makes no sense, in words for who sent it."""


@dataclass(frozen=True)
class Topology:
    """What its record says, and what follows from that alone."""

    value: StreamsGroupTopologyValue

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @cached_property
    def subtopologies(self) -> Mapping[str, Subtopology]:
        """By id, in the order in which Java's map of them is walked."""
        by_id = {each.subtopology_id: each for each in self.value.subtopologies}
        return {name: by_id[name] for name in HashTable(string_hash, by_id)}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """All that tasks read and keep."""
        return frozenset(name for each in self.subtopologies.values() for name in topics_of(each))

    @cached_property
    def subtopology_of_source(self) -> Mapping[str, str]:
        """By topic that tasks read, the id of its subtopology."""
        return {
            name: each.subtopology_id
            for each in self.subtopologies.values()
            for name in sources_of(each)
        }

    def is_same_as(self, other: Topology) -> bool:
        """In whatever order the subtopologies are listed."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    def to_record(self, group_id: str) -> TopologyRecord:
        return TopologyRecord(StreamsGroupTopologyKey(group_id), self.value)

    def described(self) -> described.Topology:
        """As it was sent: of internal topics the number of partitions may not be known yet."""
        listed = [_described(self.subtopologies[name]) for name in sorted(self.subtopologies)]
        return described.Topology(self.epoch, listed)


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics whose records its tasks process."""
    return [
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    ]


def topics_of(subtopology: Subtopology) -> list[str]:
    changelogs = (topic.name for topic in subtopology.state_changelog_topics)
    return [*sources_of(subtopology), *changelogs]


def topology_of(told: heartbeat.Topology) -> Topology:
    """The one that a heartbeat brings.  Raises InvalidTopology."""
    subtopologies = [_subtopology(each) for each in told.subtopologies]
    value = StreamsGroupTopologyValue(told.epoch, subtopologies)
    if told.epoch < 0:
        raise InvalidTopology("Topology epoch must be non-negative.")
    topology = Topology(value)
    if len(topology.subtopologies) < len(value.subtopologies):
        raise InvalidTopology("The topology names a subtopology twice.")
    for subtopology in value.subtopologies:
        _check_copartition_groups(subtopology)
    return topology


def _subtopology(told: heartbeat.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=told.subtopology_id,
        source_topics=told.source_topics,
        source_topic_regex=told.source_topic_regex,
        state_changelog_topics=_topic_infos(told.state_changelog_topics),
        repartition_sink_topics=told.repartition_sink_topics,
        repartition_source_topics=_topic_infos(told.repartition_source_topics),
        copartition_groups=[
            CopartitionGroup(
                each.source_topics, each.source_topic_regex, each.repartition_source_topics
            )
            for each in told.copartition_groups
        ],
    )


def _topic_infos(told: Iterable[heartbeat.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [TopicConfig(config.key, config.value) for config in each.topic_configs],
        )
        for each in told
    ]


def _check_copartition_groups(subtopology: Subtopology) -> None:
    """They name topics by their places in the lists of the subtopology."""
    for group in subtopology.copartition_groups:
        for places, topics in (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, subtopology.repartition_source_topics),
        ):
            if any(not 0 <= place < len(topics) for place in places):
                name = subtopology.subtopology_id
                raise InvalidTopology(f"Subtopology {name} copartitions a topic that it lacks.")


def _described(subtopology: Subtopology) -> described.Subtopology:
    return described.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_described_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_described_topics(subtopology.repartition_source_topics),
    )


def _described_topics(topics: Iterable[TopicInfo]) -> list[described.TopicInfo]:
    return [
        described.TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [described.KeyValue(config.key, config.value) for config in each.topic_configs],
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    ]
