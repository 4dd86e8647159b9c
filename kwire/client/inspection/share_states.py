"""The state of the records of a share group, as the share coordinator keeps it (KIP-932).

The requests are those of brokers: a client may send them if it has the right CLUSTER_ACTION on the
cluster, or if the cluster has no authorizer.  A read names the leader epoch that the coordinator
knows already, so that it changes nothing.

The coordinator knows what members acknowledged, released and rejected, and how often records were
delivered.  Only the leader of the partition knows which records members hold at the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, check
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import read_share_group_state as state
from kwire.codecs.messages import read_share_group_state_summary as summary
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.uuids import uuid_text

SHARE_KEY: Final = 2
"""The key type of FindCoordinator for share partitions."""
DELIVERY_STATES: Final[Mapping[int, str]] = {
    0: "available",
    1: "acquired",
    2: "acknowledged",
    3: "archiving",
    4: "archived",
}
"""The states of records with the protocol's numbers."""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records with the same state: the first and last offset, and how often they were delivered."""

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int

    @property
    def records(self) -> int:
        """The number of offsets in the range."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class KeptShareState:
    """The state of one share partition."""

    start_offset: int
    state_epoch: int
    leader_epoch: int
    ranges: list[RecordRange] = field(default_factory=list)
    """Records after the start offset that were delivered already."""


def share_states(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KeptShareState]:
    """The states of partitions that the group has begun to read.

    Raises BrokerRefused, for example with CLUSTER_AUTHORIZATION_FAILED, and UnsupportedRequest.
    """
    wanted = sorted(partitions)
    ids = cluster.topic_ids({partition.topic for partition in wanted})

    def ask() -> dict[TopicPartition, KeptShareState]:
        """Asks the coordinator of each share partition once."""
        keys = {
            f"{group_id}:{uuid_text(ids[each.topic])}:{each.partition}": each
            for each in wanted
            if each.topic in ids
        }
        found: dict[TopicPartition, KeptShareState] = {}
        for node_id, own in _by_coordinator(cluster, keys).items():
            found |= _states_at(cluster.node(node_id), group_id, own, ids)
        return found

    return cluster.retrying(ask)


def _by_coordinator(
    cluster: Cluster, keys: Mapping[str, TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """The partitions by the broker that keeps their states."""
    if not keys:
        return {}
    found: dict[int, list[TopicPartition]] = {}
    request = FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=list(keys))
    for answer in cluster.any().call(request).coordinators:
        check(answer.error_code, f"coordinator of {answer.key}", answer.error_message)
        node = ClusterNode(answer.node_id, answer.host, answer.port)
        cluster.nodes.setdefault(answer.node_id, node)
        found.setdefault(answer.node_id, []).append(keys[answer.key])
    return found


def _states_at(
    connection: BrokerConnection,
    group_id: str,
    partitions: Iterable[TopicPartition],
    ids: Mapping[str, bytes],
) -> dict[TopicPartition, KeptShareState]:
    """The states that one coordinator keeps.  Partitions without a state are left out."""
    names = {topic_id: name for name, topic_id in ids.items()}
    epochs = _leader_epochs(connection, group_id, partitions, ids, names)
    topics: dict[bytes, list[state.PartitionData]] = {}
    for place, epoch in epochs.items():
        topics.setdefault(ids[place.topic], []).append(state.PartitionData(place.partition, epoch))
    if not topics:
        return {}
    request = state.ReadShareGroupStateRequest(
        group_id, [state.ReadStateData(topic_id, own) for topic_id, own in topics.items()]
    )
    found = {}
    for topic in connection.call(request).results:
        for each in topic.partitions:
            place = TopicPartition(names[topic.topic_id], each.partition)
            if each.error_code in _NO_STATE:
                continue
            check(each.error_code, f"state of group {group_id} in {place}", each.error_message)
            found[place] = KeptShareState(
                each.start_offset, each.state_epoch, epochs[place], _ranges(each.state_batches)
            )
    return found


_NO_STATE: Final = {ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Answers about a partition whose state was not initialized, or that does not exist."""


def _leader_epochs(
    connection: BrokerConnection,
    group_id: str,
    partitions: Iterable[TopicPartition],
    ids: Mapping[str, bytes],
    names: Mapping[bytes, str],
) -> dict[TopicPartition, int]:
    """The leader epochs that the coordinator knows.  A read with a higher one would store it."""
    topics: dict[bytes, list[summary.PartitionData]] = {}
    for place in partitions:
        topics.setdefault(ids[place.topic], []).append(summary.PartitionData(place.partition, 0))
    request = summary.ReadShareGroupStateSummaryRequest(
        group_id, [summary.ReadStateSummaryData(topic_id, own) for topic_id, own in topics.items()]
    )
    epochs = {}
    for topic in connection.call(request).results:
        for each in topic.partitions:
            place = TopicPartition(names[topic.topic_id], each.partition)
            if each.error_code in _NO_STATE:
                continue
            if each.error_code:
                what = f"state of group {group_id} in {place}"
                raise BrokerRefused(each.error_code, what, each.error_message)
            epochs[place] = max(0, each.leader_epoch)
    return epochs


def _ranges(batches: Iterable[state.StateBatch]) -> list[RecordRange]:
    return [
        RecordRange(
            batch.first_offset,
            batch.last_offset,
            DELIVERY_STATES.get(batch.delivery_state, str(batch.delivery_state)),
            batch.delivery_count,
        )
        for batch in batches
    ]
