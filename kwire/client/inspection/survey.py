"""A survey of all brokers of a cluster at one moment.

Each broker is queried on its own thread and connection, so all brokers that hang together cost one
timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.configs import topic_settings
from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError, RequestTimedOut, UnsupportedRequest, check
from kwire.client.inspection.quorum import ControllerQuorum, quorum_of
from kwire.client.offsets import LATEST
from kwire.client.reassignments import Reassignment, reassignments_of
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kwire.codecs.volumes import Volume

T = TypeVar("T")

ROLE: Final = "survey"
AT_ONCE_MAX: Final = 64
"""The most brokers that are asked at the same time, on a thread each."""
DEBUGGING_REPLICA_ID: Final = -2
"""With this replica id, ListOffsets also returns offsets of a replica that is not the leader."""
MIN_ISR: Final = "min.insync.replicas"


class Sizes(NamedTuple):
    """The result of DescribeLogDirs: bytes of each replica, and failed log directories."""

    size_bytes: dict[TopicPartition, int]
    failed_dirs: list[str]
    volumes: Sequence[Volume] = ()
    """The disks of the directories that work; sizes are UNKNOWN before Apache Kafka 3.3."""


@dataclass(slots=True)
class BrokerReport:
    """What one broker reported.  `trouble` is the error that ended its report."""

    sizes: Sizes | None = None
    end_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """The log end offsets of its replicas, leaders or not, as far as it reported them."""
    reassignments: list[Reassignment] | None = None
    features: dict[str, int] = field(default_factory=dict)
    """The levels of the finalized features."""
    quorum: ControllerQuorum | ClientError | None = None
    """The quorum of controllers as the broker describes it, or why it could not; None if the
    cluster has none."""
    trouble: ClientError | None = None


@dataclass(slots=True)
class Survey:
    """The reports of all brokers of a cluster."""

    cluster_id: str | None
    controller_id: int
    nodes: dict[int, ClusterNode]
    partitions: dict[TopicPartition, MetadataResponsePartition]
    reports: dict[int, BrokerReport]
    min_isr: dict[str, int]
    """min.insync.replicas of the topics; empty if no broker reported it."""

    @property
    def reassignments(self) -> list[Reassignment] | None:
        """The reassignments in progress, or None if the controller did not report them."""
        report = self.reports.get(self.controller_id)
        return None if report is None else report.reassignments

    @property
    def features(self) -> dict[str, int]:
        """The finalized features that the controller reported, or none."""
        report = self.reports.get(self.controller_id)
        return {} if report is None else report.features

    @property
    def quorum(self) -> ControllerQuorum | ClientError | None:
        """The newest description of the quorum; an error if brokers failed to get it from the
        controllers, and None if the cluster has no quorum."""
        found = [each.quorum for each in self.reports.values() if each.quorum is not None]
        described = [each for each in found if isinstance(each, ControllerQuorum)]
        newest = max(
            described, key=lambda each: (each.leader_epoch, each.high_watermark), default=None
        )
        return newest or next(iter(found), None)


def from_each(
    cluster: Cluster, ask: Callable[[int, BrokerConnection], T]
) -> dict[int, T | ClientError]:
    """The result or error of `ask` for each broker.  All brokers are asked at the same time."""

    def attempt(node_id: int) -> T | ClientError:
        """Return what `ask` returns for one broker, or the error, so that other brokers' results
        stay."""
        try:
            return ask(node_id, cluster.node(node_id, ROLE))
        except ClientError as error:
            return error

    brokers = sorted(cluster.nodes)
    with ThreadPoolExecutor(max_workers=min(AT_ONCE_MAX, max(1, len(brokers)))) as pool:
        return dict(zip(brokers, pool.map(attempt, brokers), strict=True))


def survey(cluster: Cluster, *, with_settings: bool = True) -> Survey:
    """Ask all brokers for their state.  Raises ClientError if no broker returns metadata.

    Without `with_settings`, min.insync.replicas is not asked for.  Then the answer takes a broker
    less time in a cluster of many topics.
    """
    topics = all_topics(cluster)
    partitions = partitions_of(topics)
    controller_id = cluster.controller_id

    def ask(node_id: int, connection: BrokerConnection) -> BrokerReport:
        return _report_of(node_id, connection, partitions, is_controller=node_id == controller_id)

    reports = {
        node_id: BrokerReport(trouble=result) if isinstance(result, ClientError) else result
        for node_id, result in from_each(cluster, ask).items()
    }
    nodes = dict(cluster.nodes)
    min_isr = _min_isr(cluster, topics) if with_settings else {}
    return Survey(cluster.cluster_id, controller_id, nodes, partitions, reports, min_isr)


def all_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    """The metadata of all topics.  After a timeout another broker is asked."""
    for _ in range(len(cluster.nodes) + len(cluster.bootstrap)):
        try:
            return _topics(cluster)
        except RequestTimedOut as error:
            cluster.tell_of_trouble(error)
    return _topics(cluster)


def _topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    reply = cluster.retrying(lambda: cluster.refresh(None))
    return [topic for topic in reply.topics if not topic.error_code]


def partitions_of(
    topics: Iterable[MetadataResponseTopic],
) -> dict[TopicPartition, MetadataResponsePartition]:
    """The partitions of topics, in the order of their names."""
    found = {
        TopicPartition(topic.name or "", partition.partition_index): partition
        for topic in topics
        for partition in topic.partitions
    }
    return dict(sorted(found.items()))


def _report_of(
    node_id: int,
    connection: BrokerConnection,
    partitions: Mapping[TopicPartition, MetadataResponsePartition],
    *,
    is_controller: bool,
) -> BrokerReport:
    """The report of one broker, up to its first error.

    A request that the broker does not support ends the report without an error.
    """
    report = BrokerReport(features=dict(connection.features))
    replicated = [
        place
        for place, state in partitions.items()
        if node_id in state.replica_nodes and len(state.replica_nodes) > 1
    ]
    try:
        report.sizes = sizes_on(connection)
        report.end_offsets = own_end_offsets(connection, replicated)
        report.quorum = _quorum_by(connection)
        # A broker that cannot reach the controllers does not get this from them, either.
        if is_controller and not isinstance(report.quorum, ClientError):
            report.reassignments = reassignments_of(connection)
    except UnsupportedRequest:
        return report
    except ClientError as error:
        report.trouble = error
    return report


def _quorum_by(connection: BrokerConnection) -> ControllerQuorum | ClientError | None:
    """The quorum as one broker describes it, or the error: that is no trouble of the broker."""
    try:
        return quorum_of(connection)
    except ClientError as error:
        return error


def sizes_on(connection: BrokerConnection) -> Sizes:
    """The sizes of all replicas on one broker, without copies to another log directory."""
    reply = connection.call(DescribeLogDirsRequest(topics=None))
    check(reply.error_code, f"log directories of {connection.address}")
    sizes: dict[TopicPartition, int] = {}
    failed, volumes = [], []
    for directory in reply.results:
        if directory.error_code:
            failed.append(directory.log_dir)
        else:
            volumes.append(Volume(directory.log_dir, directory.total_bytes, directory.usable_bytes))
        for topic in directory.topics:
            for each in topic.partitions:
                if not each.is_future_key:
                    sizes[TopicPartition(topic.name, each.partition_index)] = each.partition_size
    return Sizes(sizes, failed, volumes)


def own_end_offsets(
    connection: BrokerConnection, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The log end offsets of replicas on one broker, whether or not it leads them."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place in places:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=LATEST)
        by_topic.setdefault(place.topic, []).append(asked)
    if not by_topic:
        return {}
    reply = connection.call(
        ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA_ID,
            topics=[ListOffsetsTopic(name=name, partitions=own) for name, own in by_topic.items()],
        )
    )
    return {
        TopicPartition(topic.name, answer.partition_index): answer.offset
        for topic in reply.topics
        for answer in topic.partitions
        if answer.error_code == ErrorCode.NONE
    }


def _min_isr(cluster: Cluster, topics: Iterable[MetadataResponseTopic]) -> dict[str, int]:
    """Return min.insync.replicas of the topics.  If the brokers refuse, the error is shown and the
    result is empty, so that the survey goes on without it."""
    names = [topic.name or "" for topic in topics]
    try:
        settings = topic_settings(cluster, names, [MIN_ISR])
    except ClientError as error:
        cluster.tell_of_trouble(error)
        return {}
    return {
        name: int(value) for name, of_topic in settings.items() if (value := of_topic.get(MIN_ISR))
    }
