"""Requests whose answers contain the time of a broker, or timestamps of records."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final, NamedTuple

from kwire.client.checkup.clocks import ClockReading, NewestRecord
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError, UnsupportedRequest, check
from kwire.client.inspection.quorum import METADATA_TOPIC
from kwire.client.inspection.survey import ROLE, from_each
from kwire.client.offsets import MAX_TIMESTAMP
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataResponsePartition

TIMES_SINCE: Final = 1
"""The first version of DescribeQuorum with times (KIP-836)."""
MAX_TIMESTAMP_SINCE: Final = 7
"""The first version of ListOffsets that finds the newest timestamp (KIP-734)."""
PARTITIONS_MAX: Final = 500
"""The most partitions of a broker whose newest timestamp is asked for: Apache Kafka reads a batch
of each from its disk."""
CONSUMER: Final = -1
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics whose records have the time of the broker that writes them."""


def quorum_clock(
    cluster: Cluster, brokers: Collection[int], usable: Collection[int]
) -> ClockReading | None:
    """The clock of the leader of the quorum of controllers; None without a quorum or its times.

    The leader may be one of the `brokers`; then it is asked only if it is `usable`.  Raises
    ClientError if the brokers refuse.
    """
    first = _leaders_time(cluster.any())
    if first is None or first.leader_id not in brokers:
        return None if first is None else first.reading(f"controller {first.leader_id}")
    if first.leader_id not in usable:
        return None
    # In a cluster of kwire the answering broker reports its own time, so the leader is asked.
    own = _leaders_time(cluster.node(first.leader_id, ROLE))
    return None if own is None else own.reading(f"broker {own.leader_id}")


class _LeadersTime(NamedTuple):
    """The time that the leader of the quorum reported, and when it was asked."""

    leader_id: int
    at_s: float
    asked_s: float
    taken_s: float

    def reading(self, who: str) -> ClockReading:
        return ClockReading(who, self.at_s - self.asked_s - self.taken_s / 2, self.taken_s)


def _leaders_time(connection: BrokerConnection) -> _LeadersTime | None:
    """Ask for the quorum: its leader has caught up with itself at the time of the answer."""
    asked = RequestTopicData(METADATA_TOPIC, [RequestPartitionData(0)])
    request = DescribeQuorumRequest([asked])
    try:
        if connection.version_for(request) < TIMES_SINCE:
            return None
    except UnsupportedRequest:
        return None
    start_s, start = time.time(), time.monotonic()
    reply = connection.call(request)
    taken_s = time.monotonic() - start
    check(reply.error_code, "the quorum", reply.error_message)
    for partition in (each for topic in reply.topics for each in topic.partitions):
        check(partition.error_code, "the quorum", partition.error_message)
        for voter in partition.current_voters:
            at_ms = voter.last_caught_up_timestamp
            if voter.replica_id == partition.leader_id and at_ms > 0:
                return _LeadersTime(voter.replica_id, at_ms / 1000, start_s, taken_s)
    return None


def newest_records(
    cluster: Cluster,
    partitions: Mapping[TopicPartition, MetadataResponsePartition],
    brokers: Collection[int],
) -> list[NewestRecord]:
    """The newest timestamps of partitions, of at most PARTITIONS_MAX of each broker.

    Internal topics come first.  Brokers that do not answer are left out.
    """

    def ask(node_id: int, connection: BrokerConnection) -> list[NewestRecord]:
        led = sorted(
            (place for place, state in partitions.items() if state.leader_id == node_id),
            key=lambda place: place.topic not in INTERNAL,
        )
        return _newest(node_id, connection, list(islice(led, PARTITIONS_MAX)))

    found = from_each(cluster, ask)
    return [
        record
        for node_id, each in found.items()
        if node_id in brokers and not isinstance(each, ClientError)
        for record in each
    ]


def _newest(
    node_id: int, connection: BrokerConnection, places: list[TopicPartition]
) -> list[NewestRecord]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place in places:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=MAX_TIMESTAMP)
        by_topic.setdefault(place.topic, []).append(asked)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=own) for name, own in by_topic.items()],
    )
    if not by_topic or connection.version_for(request) < MAX_TIMESTAMP_SINCE:
        return []
    reply = connection.call(request)
    now_ms = time.time_ns() // 1_000_000
    return [
        NewestRecord(topic.name, (each.timestamp - now_ms) / 1000, node_id, topic.name in INTERNAL)
        for topic in reply.topics
        for each in topic.partitions
        if not each.error_code and each.timestamp >= 0
    ]
