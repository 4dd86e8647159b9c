"""How far the partitions and groups of a cluster have come at one moment.

Two of these moments give rates and the change of lags (`kwire top`).  All brokers are asked at the
same time, and the errors of one do not hide what the others report.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError
from kwire.client.inspection.many_groups import (
    GroupPosition,
    ListedGroups,
    describe_groups,
    known_end_offsets,
    listed_groups,
    positions_of,
    with_lag,
)
from kwire.client.inspection.survey import Sizes, all_topics, from_each, partitions_of, sizes_on
from kwire.codecs.messages.metadata import MetadataResponsePartition


@dataclass(slots=True)
class GroupProgress:
    """A group: its state, and how far it has read."""

    group_id: str
    type: str
    """`classic`, `consumer`, `share` or `streams`."""
    state: str
    coordinator_id: int
    members: int | None = None
    """None if the coordinator did not describe the group."""
    positions: Mapping[TopicPartition, GroupPosition] = field(default_factory=dict)
    """Where it is in each partition with an offset."""

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """The lag in each partition where it is known."""
        return {place: each.lag for place, each in self.positions.items() if each.lag is not None}


@dataclass(slots=True)
class ClusterProgress:
    """What all brokers reported at one moment."""

    at_s: float
    """Of time.monotonic()."""
    cluster_id: str | None
    controller_id: int
    nodes: dict[int, ClusterNode]
    partitions: dict[TopicPartition, MetadataResponsePartition]
    end_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """The ends of partitions as consumers see them, where the leader reported them."""
    groups: dict[str, GroupProgress] = field(default_factory=dict)
    sizes: dict[int, Sizes] = field(default_factory=dict)
    """The replicas and disks of each broker that reported them."""
    troubles: dict[int, ClientError] = field(default_factory=dict)
    """Why a broker did not report something."""


def progress(cluster: Cluster) -> ClusterProgress:
    """Ask all brokers.  Raises ClientError if no broker returns metadata.

    Groups come before the ends of partitions: otherwise an offset that is committed meanwhile would
    seem to be beyond the end.
    """
    partitions = partitions_of(all_topics(cluster))
    listed, troubles = _listed(cluster)
    nodes = dict(cluster.nodes)
    if len(troubles) < len(nodes):
        # A broker that hangs would cost its timeout again with each request.  The next metadata
        # have it again.
        cluster.nodes = {key: node for key, node in nodes.items() if key not in troubles}
    descriptions = describe_groups(cluster, listed.groups)
    positions = positions_of(cluster, listed.groups)
    ends = known_end_offsets(cluster, partitions)
    at_s = time.monotonic()
    sizes, failures = _sizes(cluster)
    groups = {}
    for each in listed.groups:
        described, own = descriptions.get(each.group_id), positions.get(each.group_id)
        known = {} if own is None or isinstance(own, ClientError) else with_lag(own, ends)
        group = GroupProgress(
            each.group_id, each.type, each.state, each.coordinator_id, positions=known
        )
        if described is not None and not isinstance(described, ClientError):
            group.state, group.members = described.state, len(described.members)
        groups[each.group_id] = group
    return ClusterProgress(
        at_s,
        cluster.cluster_id,
        cluster.controller_id,
        nodes,
        partitions,
        ends,
        groups,
        sizes,
        failures | troubles,
    )


def _listed(cluster: Cluster) -> tuple[ListedGroups, dict[int, ClientError]]:
    """Return the groups, and the errors of brokers.  It is no error of the cluster if all brokers
    refuse to list groups."""
    try:
        found = listed_groups(cluster)
    except ClientError as error:
        return ListedGroups(), dict.fromkeys(cluster.nodes, error)
    return found, found.troubles


def _sizes(cluster: Cluster) -> tuple[dict[int, Sizes], dict[int, ClientError]]:
    """Return the sizes of the replicas of each broker, and the errors of brokers."""

    def ask(_: int, connection: BrokerConnection) -> Sizes:
        return sizes_on(connection)

    sizes: dict[int, Sizes] = {}
    failures: dict[int, ClientError] = {}
    for node_id, result in from_each(cluster, ask).items():
        if isinstance(result, ClientError):
            failures[node_id] = result
        else:
            sizes[node_id] = result
    return sizes, failures
