"""Computes the number of tasks of a topology, and its internal topics with their partition counts.

1. All source topics must exist.
2. A repartition topic has the partition count of the topology, else that of the largest topic read
   by a subtopology that writes to it.
3. Topics that are joined (a copartition group) must have the same number of partitions, so a
   repartition topic among them gets that of the others.
4. The number of tasks of a subtopology, and of partitions of its changelogs, is the partition count
   of the largest topic that it reads.
5. Existing internal topics must have these partition counts; missing ones have to be created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages import streams_group_describe as described
from kwire.codecs.messages.coordinator.streams_group_topology import Subtopology, TopicInfo
from kwire.groups.java import HashTable, string_hash
from kwire.groups.streams.topology import InvalidTopology, Topology, sources_of, topics_of

PartitionCount = Callable[[str], int | None]
"""The partition count of a topic, or None if it does not exist."""

TOPICS_NAMED_MAX = 3


class StatusCode(IntEnum):
    """A status in a heartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class DescriptionStatus(IntEnum):
    """Whether StreamsGroupDescribe returns the topology description of a group."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    FAILED = 2
    """The plug-in cannot read it."""
    AVAILABLE = 3


class TopologyProblem(NamedTuple):
    """Why tasks cannot be assigned, with Apache Kafka's message."""

    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic that exists or has to be created."""

    name: str
    partitions: int
    replication_factor: int
    """0: the cluster's default."""
    configs: Mapping[str, str]

    def described(self) -> described.TopicInfo:
        configs = [described.KeyValue(key, value) for key, value in self.configs.items()]
        return described.TopicInfo(self.name, self.partitions, self.replication_factor, configs)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    task_count: int
    sources: frozenset[str]
    """All topics that the subtopology's tasks read."""
    source_topics: Collection[str]
    repartition_sinks: Collection[str]
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    def described(self, subtopology_id: str) -> described.Subtopology:
        """Return the description of the subtopology, with the computed partition counts."""
        return described.Subtopology(
            subtopology_id=subtopology_id,
            source_topics=sorted(self.source_topics),
            repartition_sink_topics=sorted(self.repartition_sinks),
            state_changelog_topics=_described(self.changelogs),
            repartition_source_topics=_described(self.repartition_sources),
        )


def _described(topics: Mapping[str, InternalTopic]) -> list[described.TopicInfo]:
    return [topics[name].described() for name in sorted(topics)]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with task counts and internal topics; tasks can be assigned if no `problem`."""

    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """Subtopology id -> subtopology, sorted by id."""
    to_create: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: TopologyProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def described(self, epoch: int) -> described.Topology:
        listed = [each.described(name) for name, each in self.subtopologies.items()]
        return described.Topology(epoch, listed)


class TopologyCache:
    """The configured topologies of groups, cached while topology and topics are unchanged."""

    def __init__(self) -> None:
        self._cache: dict[str, tuple[Topology, object, ConfiguredTopology]] = {}

    def of_group(
        self, group_id: str, topology: Topology, image: ClusterImage
    ) -> ConfiguredTopology:
        """The configured topology of a group.  Raises InvalidTopology."""
        topics = image.topics
        entry = self._cache.get(group_id)
        if entry is not None and entry[0] is topology and entry[1] is topics:
            return entry[2]

        def partition_count(name: str) -> int | None:
            topic = topics.get(name)
            return None if topic is None else len(topic.partitions)

        configured = configure(topology, partition_count)
        self._cache[group_id] = topology, topics, configured
        return configured

    def forget(self, group_id: str) -> None:
        self._cache.pop(group_id, None)


class _ImpossibleTopology(Exception):
    """The topology cannot be configured with the topics that exist."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(code, detail)


def configure(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    """Configure a topology; a problem with topics is in the result.  Raises InvalidTopology."""
    try:
        return _Configuring(topology, partition_count).configured()
    except _ImpossibleTopology as impossible:
        return ConfiguredTopology(problem=impossible.problem)


class _Configuring:
    """The computation, topic by topic."""

    def __init__(self, topology: Topology, partition_count: PartitionCount) -> None:
        self._topology = topology
        self._subtopologies = topology.subtopologies.values()
        self._existing = partition_count
        self._decided: dict[str, int] = {}
        """Internal topic -> its partition count, as far as it is decided."""

    def configured(self) -> ConfiguredTopology:
        """Return the topology with its task counts and internal topics.

        If internal topics are missing, the result has a problem, and lists them. Raises
        _Impossible, InvalidTopology.
        """
        self._check_source_topics()
        self._decided.update(self._count_repartition_topics())
        self._copartition()
        self._decided.update(self._count_changelogs())
        subtopologies = {each.subtopology_id: self._configure(each) for each in self._subtopologies}
        by_id = {name: subtopologies[name] for name in sorted(subtopologies)}
        missing = self._missing(by_id.values())
        if not missing:
            return ConfiguredTopology(by_id)
        detail = f"Internal topics are missing: {_named(missing)}"
        problem = TopologyProblem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
        return ConfiguredTopology(by_id, missing, problem)

    def _check_source_topics(self) -> None:
        """Raise _Impossible if a source topic does not exist."""
        sources = {name for each in self._subtopologies for name in each.source_topics}
        missing = sorted(name for name in sources if self._existing(name) is None)
        if missing:
            detail = f"Source topics {_named(missing)} are missing."
            raise _ImpossibleTopology(StatusCode.MISSING_SOURCE_TOPICS, detail)

    def _known(self, topic: str) -> int | None:
        existing = self._existing(topic)
        return self._decided.get(topic) if existing is None else existing

    def _count(self, topic: str) -> int:
        """Return the partition count of a topic.  Raises InvalidTopology if it is unknown."""
        count = self._known(topic)
        if count is None:
            raise InvalidTopology(f"Number of partitions is not set for topic: {topic}")
        return count

    # -- repartition topics

    def _count_repartition_topics(self) -> Mapping[str, int]:
        """Return the partition count of each repartition topic.

        A count of 0 is computed from the topics that its writers read; that may depend on other
        repartition topics, so it takes several passes.  Raises InvalidTopology.
        """
        sources = self._repartition_sources()
        counts = {topic.name: topic.partitions for topic in sources if topic.partitions != 0}
        while self._count_sinks(counts):
            pass
        if any(topic.name not in counts for topic in sources):
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
        return counts

    def _repartition_sources(self) -> list[TopicInfo]:
        return [topic for each in self._subtopologies for topic in each.repartition_source_topics]

    def _count_sinks(self, counts: dict[str, int]) -> bool:
        """Decide the counts of sinks whose sources are known.  Returns whether others are left."""
        left = progress = False
        for subtopology in self._subtopologies:
            for sink in subtopology.repartition_sink_topics:
                if sink in counts:
                    continue
                count = self._largest_read(subtopology, counts)
                if count is None:
                    left = True
                else:
                    counts[sink] = count
                    progress = True
        if left and not progress:
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        return left

    def _largest_read(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        """The largest known partition count of the topics that a subtopology reads."""
        repartitioned = (counts.get(t.name) for t in subtopology.repartition_source_topics)
        read = (self._known(name) for name in subtopology.source_topics)
        return max((n for n in (*repartitioned, *read) if n is not None), default=None)

    # -- topics that are joined (copartition groups)

    def _copartition(self) -> None:
        """Give the topics of each copartition group the same number of partitions."""
        sources = self._repartition_sources()
        fixed = {topic.name for topic in sources if topic.partitions != 0}
        flexible = {topic.name for topic in sources if topic.partitions == 0}
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                names = [subtopology.source_topics[place] for place in group.source_topics]
                places = group.repartition_source_topics
                names += [subtopology.repartition_source_topics[place].name for place in places]
                self._join(HashTable(string_hash, names), fixed, flexible)

    def _join(self, names: HashTable[str], fixed: set[str], flexible: set[str]) -> None:
        """Decide the common partition count of topics that are joined.

        Existing topics decide it, else repartition topics with a fixed count, else the largest
        count. Raises _Impossible if a fixed count differs.
        """
        if not len(names):
            return
        counts = {name: self._count(name) for name in names}
        internal = {name: n for name, n in counts.items() if name in fixed or name in flexible}
        others = {name: n for name, n in counts.items() if name not in internal}
        if others:
            count = _same(others, others)
        elif fixed:
            count = _same(internal, {name: self._count(name) for name in fixed})
        else:
            count = max(internal.values())
        for name in HashTable(string_hash, internal):
            if name in fixed and internal[name] != count:
                raise _ImpossibleTopology(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{internal[name]}] of repartition topic [{name}] "
                    f"doesn't match number of partitions [{count}] of the source topic.",
                )
            self._decided[name] = count

    # -- changelogs and tasks

    def _count_changelogs(self) -> Mapping[str, int]:
        """Return the partition count of each changelog: the number of its tasks."""
        return {
            topic.name: self._task_count(each)
            for each in self._subtopologies
            for topic in (each.state_changelog_topics if self._task_count(each) else ())
        }

    def _task_count(self, subtopology: Subtopology) -> int:
        """Return the number of tasks: the largest partition count of the source topics.

        Raises InvalidTopology if the subtopology has no source topic.
        """
        sources = sources_of(subtopology)
        if not sources:
            name = subtopology.subtopology_id
            raise InvalidTopology(f"No source topics found for subtopology {name}")
        return max(self._count(name) for name in sources)

    def _configure(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Return a subtopology with its task count and internal topics."""
        return ConfiguredSubtopology(
            task_count=self._task_count(subtopology),
            sources=frozenset(sources_of(subtopology)),
            source_topics=frozenset(subtopology.source_topics),
            repartition_sinks=frozenset(subtopology.repartition_sink_topics),
            repartition_sources=self._internal(subtopology.repartition_source_topics),
            changelogs=self._internal(subtopology.state_changelog_topics),
        )

    def _internal(self, topics: Iterable[TopicInfo]) -> Mapping[str, InternalTopic]:
        """Return internal topics by name, with their partition counts.  Raises InvalidTopology."""
        internal: dict[str, InternalTopic] = {}
        for topic in topics:
            count = topic.partitions or self._decided[topic.name]
            if count < 1:
                raise InvalidTopology("Number of partitions must be at least 1.")
            if topic.name in internal:
                raise InvalidTopology(f"A subtopology names topic {topic.name} twice.")
            configs = {config.key: config.value for config in topic.topic_configs}
            internal[topic.name] = InternalTopic(
                topic.name, count, topic.replication_factor, configs
            )
        return internal

    # -- existing topics

    def _missing(
        self, subtopologies: Iterable[ConfiguredSubtopology]
    ) -> Mapping[str, InternalTopic]:
        """The internal topics to create, in the order of Java's map."""
        internal: dict[str, InternalTopic] = {}
        for subtopology in subtopologies:
            internal.update(subtopology.repartition_sources)
            internal.update(subtopology.changelogs)
        required = (name for each in self._subtopologies for name in topics_of(each))
        for name in HashTable(string_hash, required):
            self._check_partitions(name, internal)
        order = HashTable(string_hash, internal)
        return {name: internal[name] for name in order if self._existing(name) is None}

    def _check_partitions(self, name: str, internal: Mapping[str, InternalTopic]) -> None:
        """Raise _Impossible if an existing internal topic has another number of partitions."""
        existing, expected = self._existing(name), internal.get(name)
        if existing is None or expected is None or existing == expected.partitions:
            return
        raise _ImpossibleTopology(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Existing topic {name} has different number of partitions: expected "
            f"{expected.partitions}, found {existing}",
        )


def _same(named: Mapping[str, int], counts: Mapping[str, int]) -> int:
    """The common value of `counts`.  If they differ, raises _Impossible that lists `named`."""
    first, *others = set(counts.values())
    if others:
        listed = ", ".join(f"{name}={named[name]}" for name in sorted(named))
        raise _ImpossibleTopology(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return first


def _named(topics: Iterable[str]) -> str:
    """Return the topics as text for the client: the first ones, and how many more there are."""
    names = list(topics)
    more = len(names) - TOPICS_NAMED_MAX
    end = f" and {more} additional topics" if more > 0 else ""
    return ", ".join(names[:TOPICS_NAMED_MAX]) + end
