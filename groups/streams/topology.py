"""A topology: the topics that a streams application reads, keeps and writes.

Subtopologies are connected by topics only.  Besides source topics, which other programs write, the
application owns two types of internal topics: repartition topics carry records from one
subtopology to another, and changelogs store the state of tasks.
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
    """The topology is invalid; the message says why, for the client."""


@dataclass(frozen=True)
class Topology:
    """The topology in a record, and values computed from it."""

    value: StreamsGroupTopologyValue

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @cached_property
    def subtopologies(self) -> Mapping[str, Subtopology]:
        """Subtopology id -> subtopology, in the iteration order of Java's map."""
        by_id = {
            subtopology.subtopology_id: subtopology for subtopology in self.value.subtopologies
        }
        return {name: by_id[name] for name in HashTable(string_hash, by_id)}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """All topics that tasks read, and their changelogs."""
        return frozenset(name for each in self.subtopologies.values() for name in topics_of(each))

    @cached_property
    def subtopology_of_source(self) -> Mapping[str, str]:
        """Topic that tasks read -> id of its subtopology."""
        return {
            name: subtopology.subtopology_id
            for subtopology in self.subtopologies.values()
            for name in sources_of(subtopology)
        }

    def is_same_as(self, other: Topology) -> bool:
        """Whether both topologies are equal; the order of subtopologies does not matter."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    def to_record(self, group_id: str) -> TopologyRecord:
        return TopologyRecord(StreamsGroupTopologyKey(group_id), self.value)

    def described(self) -> described.Topology:
        """The description of the topology as it was sent; partition counts may be missing."""
        listed = [_described(self.subtopologies[name]) for name in sorted(self.subtopologies)]
        return described.Topology(self.epoch, listed)


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics whose records the subtopology's tasks process."""
    return [
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    ]


def topics_of(subtopology: Subtopology) -> list[str]:
    changelogs = (topic.name for topic in subtopology.state_changelog_topics)
    return [*sources_of(subtopology), *changelogs]


def topology_of(sent: heartbeat.Topology) -> Topology:
    """The topology in a heartbeat.  Raises InvalidTopology."""
    subtopologies = [_subtopology(subtopology) for subtopology in sent.subtopologies]
    value = StreamsGroupTopologyValue(sent.epoch, subtopologies)
    if sent.epoch < 0:
        raise InvalidTopology("Topology epoch must be non-negative.")
    topology = Topology(value)
    if len(topology.subtopologies) < len(value.subtopologies):
        raise InvalidTopology("The topology names a subtopology twice.")
    for subtopology in value.subtopologies:
        _check_copartition_groups(subtopology)
    return topology


def _subtopology(sent: heartbeat.Subtopology) -> Subtopology:
    """Return a subtopology of the heartbeat as the topology's record has it."""
    return Subtopology(
        subtopology_id=sent.subtopology_id,
        source_topics=sent.source_topics,
        source_topic_regex=sent.source_topic_regex,
        state_changelog_topics=_topic_infos(sent.state_changelog_topics),
        repartition_sink_topics=sent.repartition_sink_topics,
        repartition_source_topics=_topic_infos(sent.repartition_source_topics),
        copartition_groups=[
            CopartitionGroup(
                group.source_topics, group.source_topic_regex, group.repartition_source_topics
            )
            for group in sent.copartition_groups
        ],
    )


def _topic_infos(topics: Iterable[heartbeat.TopicInfo]) -> list[TopicInfo]:
    """Return internal topics of the heartbeat as the topology's record has them."""
    return [
        TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [TopicConfig(config.key, config.value) for config in topic.topic_configs],
        )
        for topic in topics
    ]


def _check_copartition_groups(subtopology: Subtopology) -> None:
    """Raise InvalidTopology if a copartition group has an index outside the topic lists."""
    for group in subtopology.copartition_groups:
        for places, topics in (
            (group.source_topics, subtopology.source_topics),
            (group.repartition_source_topics, subtopology.repartition_source_topics),
        ):
            if any(not 0 <= place < len(topics) for place in places):
                name = subtopology.subtopology_id
                raise InvalidTopology(f"Subtopology {name} copartitions a topic that it lacks.")


def _described(subtopology: Subtopology) -> described.Subtopology:
    """Return the description of a subtopology as it was sent, with its topics sorted."""
    return described.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_described_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_described_topics(subtopology.repartition_source_topics),
    )


def _described_topics(topics: Iterable[TopicInfo]) -> list[described.TopicInfo]:
    """Return the description of internal topics as they were sent, sorted by name."""
    return [
        described.TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [described.KeyValue(config.key, config.value) for config in each.topic_configs],
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    ]
