"""Topics: a list of all of them, numbers for some of them, and one with all its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigResource, ConfigResourceKind, Source, describe_configs
from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError, check
from kwire.client.inspection.survey import from_each, sizes_on
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_configs import DescribeConfigsResourceResult
from kwire.codecs.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataResponseTopic

LATEST, EARLIEST = -1, -2
CONSUMER_REPLICA_ID: Final = -1


class TopicOverview(NamedTuple):
    """A topic as the metadata of the cluster have it."""

    name: str
    partitions: int
    replication_factor: int
    """The replicas of the partition that has the most."""
    is_internal: bool
    offline: int
    """Partitions without a leader."""
    under_replicated: int
    """Partitions with replicas that are not in sync."""


class KnownTopics(NamedTuple):
    """All topics that may be seen."""

    overviews: Sequence[TopicOverview]
    """Sorted by name."""
    metadata: Mapping[str, MetadataResponseTopic]
    """By name."""


class TopicNumbers(NamedTuple):
    """What brokers know of a topic's partitions; None where none of them answered."""

    records: int | None
    """The offsets from start to end.  Compaction and transactions leave gaps, so it is the most
    that the topic can have."""
    size_bytes: int | None
    """Bytes of all replicas."""


class OffsetRange(NamedTuple):
    """The offsets of a partition; None where its leader did not answer."""

    start: int | None
    end: int | None

    @property
    def records(self) -> int | None:
        """The most records that the partition can have."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """A partition of a topic."""

    index: int
    leader_id: int | None
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    offsets: OffsetRange
    size_bytes: int | None
    """Bytes on its leader."""
    sizes: Mapping[int, int]
    """Bytes of each replica, by broker."""


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its partitions."""

    overview: TopicOverview
    topic_id: bytes
    partitions: Sequence[PartitionDetail]
    configs: Sequence[DescribeConfigsResourceResult]
    configs_trouble: str | None
    """Why the configs are missing, or None."""

    @property
    def records(self) -> int | None:
        """The most records that the topic can have."""
        return total(partition.offsets.records for partition in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all replicas, as far as brokers reported them."""
        return total(sum(each.sizes.values()) if each.sizes else None for each in self.partitions)

    def config(self, name: str) -> str | None:
        """The value of a config, or None if it is unknown."""
        return next((each.value for each in self.configs if each.name == name), None)


def total(values: Iterable[int | None]) -> int | None:
    """The sum of the known values, or None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def is_changed(config: DescribeConfigsResourceResult) -> bool:
    """Whether the topic itself sets this config."""
    return config.config_source == Source.TOPIC


def overview_of(topic: MetadataResponseTopic) -> TopicOverview:
    """The overview of a topic from its metadata."""
    replication_factor = offline = under_replicated = 0
    for each in topic.partitions:  # one pass: a list has 10,000 topics
        replicas = len(each.replica_nodes)
        replication_factor = max(replication_factor, replicas)
        offline += each.leader_id < 0
        under_replicated += len(each.isr_nodes) < replicas
    return TopicOverview(
        topic.name or "",
        len(topic.partitions),
        replication_factor,
        topic.is_internal,
        offline,
        under_replicated,
    )


def known_topics(cluster: Cluster) -> KnownTopics:
    """All topics that may be seen now."""
    reply = cluster.retrying(lambda: cluster.refresh(None))
    metadata = {topic.name: topic for topic in reply.topics if topic.name and not topic.error_code}
    return KnownTopics([overview_of(metadata[name]) for name in sorted(metadata)], metadata)


def topic_numbers(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicNumbers]:
    """The numbers of these topics.  What a broker does not answer is unknown."""
    wanted = list(names)
    if not wanted:
        return {}
    reply = cluster.retrying(lambda: cluster.refresh(wanted))
    topics = [topic for topic in reply.topics if topic.name and not topic.error_code]
    offsets = offset_ranges(cluster, topics)
    sizes = replica_sizes(cluster, topics)
    return {
        topic.name or "": TopicNumbers(
            total(offsets[place].records for place in places_of(topic)),
            total(sum(of.values()) if (of := sizes.get(p)) else None for p in places_of(topic)),
        )
        for topic in topics
    }


def sizes_by_topic(cluster: Cluster) -> dict[str, int]:
    """The bytes of all replicas of each topic, as far as the brokers report them."""
    cluster.retrying(lambda: cluster.refresh([]))
    found: dict[str, int] = {}
    for result in from_each(cluster, lambda _, broker: sizes_on(broker)).values():
        if not isinstance(result, ClientError):
            for place, size_bytes in result.size_bytes.items():
                found[place.topic] = found.get(place.topic, 0) + size_bytes
    return found


def places_of(topic: MetadataResponseTopic) -> list[TopicPartition]:
    """The partitions of a topic."""
    return [TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions]


def offset_ranges(
    cluster: Cluster, topics: Iterable[MetadataResponseTopic]
) -> dict[TopicPartition, OffsetRange]:
    """Start and end of each partition.  Each leader is asked once, all at the same time."""
    by_leader: dict[int, list[TopicPartition]] = {}
    found: dict[TopicPartition, OffsetRange] = {}
    for topic in topics:
        for state in topic.partitions:
            place = TopicPartition(topic.name or "", state.partition_index)
            found[place] = OffsetRange(None, None)
            by_leader.setdefault(state.leader_id, []).append(place)

    def ask(node_id: int, connection: BrokerConnection) -> dict[TopicPartition, OffsetRange]:
        places = by_leader.get(node_id, [])
        starts = _offsets_on(connection, places, EARLIEST)
        ends = _offsets_on(connection, places, LATEST)
        return {place: OffsetRange(starts.get(place), ends.get(place)) for place in places}

    for result in from_each(cluster, ask).values():
        if not isinstance(result, ClientError):
            found |= result
    return found


def _offsets_on(
    connection: BrokerConnection, places: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """The offsets that one leader answers.  Partitions with an error are left out."""
    if not places:
        return {}
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place in places:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp)
        by_topic.setdefault(place.topic, []).append(asked)
    reply = connection.call(
        ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            topics=[ListOffsetsTopic(name=name, partitions=own) for name, own in by_topic.items()],
        )
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in reply.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }


def replica_sizes(
    cluster: Cluster, topics: Iterable[MetadataResponseTopic]
) -> dict[TopicPartition, dict[int, int]]:
    """The bytes of each replica by broker, as far as the brokers report them."""
    wanted = [
        DescribableLogDirTopic(
            topic=topic.name or "", partitions=[each.partition_index for each in topic.partitions]
        )
        for topic in topics
    ]
    request = DescribeLogDirsRequest(topics=wanted)

    def ask(_: int, connection: BrokerConnection) -> dict[TopicPartition, int]:
        reply = connection.call(request)
        check(reply.error_code, f"log directories of {connection.address}")
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_size
            for directory in reply.results
            for topic in directory.topics
            for each in topic.partitions
            if not each.is_future_key
        }

    found: dict[TopicPartition, dict[int, int]] = {}
    for node_id, result in from_each(cluster, ask).items():
        if not isinstance(result, ClientError):
            for place, size_bytes in result.items():
                found.setdefault(place, {})[node_id] = size_bytes
    return found


def topic_detail(cluster: Cluster, name: str) -> TopicDetail:
    """A topic with its partitions and configs.  Raises BrokerRefused if it does not exist."""
    topic = cluster.topic(name)
    offsets = offset_ranges(cluster, [topic])
    sizes = replica_sizes(cluster, [topic])
    partitions = []
    for state in sorted(topic.partitions, key=lambda each: each.partition_index):
        place = TopicPartition(name, state.partition_index)
        own_sizes = sizes.get(place, {})
        partitions.append(
            PartitionDetail(
                state.partition_index,
                state.leader_id if state.leader_id >= 0 else None,
                state.leader_epoch,
                state.replica_nodes,
                state.isr_nodes,
                state.offline_replicas,
                offsets[place],
                own_sizes.get(state.leader_id),
                own_sizes,
            )
        )
    configs, trouble = _configs(cluster, name)
    return TopicDetail(overview_of(topic), topic.topic_id, partitions, configs, trouble)


def _configs(cluster: Cluster, name: str) -> tuple[list[DescribeConfigsResourceResult], str | None]:
    """The configs of a topic with their documentation, or why they are missing."""
    resource = ConfigResource(ConfigResourceKind.TOPIC, name)
    try:
        return describe_configs(cluster, resource, documented=True), None
    except ClientError as error:
        return [], str(error)
