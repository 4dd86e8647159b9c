"""Subscriptions and assignments in a classic group, and the range assignor.

Members send these through the coordinator.  The bytes are Kafka's consumer protocol: an int16
version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment in that version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from kwire.client.cluster import TopicPartition
from kwire.codecs.messages import consumer_protocol_assignment as assignments
from kwire.codecs.messages import consumer_protocol_subscription as subscriptions

_VERSION = Struct(">h")
_WRITTEN_VERSION = 0
"""Later versions carry the owned partitions, which only cooperative assignors need."""


def write_subscription(topics: Iterable[str]) -> bytes:
    """The encoded subscription to these topics."""
    subscription = subscriptions.ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(_WRITTEN_VERSION) + subscription.encode(_WRITTEN_VERSION)


def read_subscription(data: bytes) -> list[str]:
    """The topics in a subscription of any version."""
    kind = subscriptions.ConsumerProtocolSubscription
    (version,) = _VERSION.unpack_from(data)
    return list(kind.decode(data, min(version, kind.MAX_VERSION), _VERSION.size).topics)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The encoded assignment of these partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    assignment = assignments.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignments.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ]
    )
    return _VERSION.pack(_WRITTEN_VERSION) + assignment.encode(_WRITTEN_VERSION)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment of any version; none if it is empty."""
    if not data:
        return []
    kind = assignments.ConsumerProtocolAssignment
    (version,) = _VERSION.unpack_from(data)
    assignment = kind.decode(data, min(version, kind.MAX_VERSION), _VERSION.size)
    return [
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    ]


def assign_ranges(
    subscribed: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Kafka's range assignor: each member gets a range of the partitions of each topic.

    `subscribed` has the topics by member id.  Members are sorted by id; the first ones get one
    partition more if the number of partitions is not divisible.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscribed}
    for topic in sorted(partition_counts):
        members = sorted(member for member, topics in subscribed.items() if topic in set(topics))
        if not members:
            continue
        share, rest = divmod(partition_counts[topic], len(members))
        first = 0
        for position, member in enumerate(members):
            last = first + share + (1 if position < rest else 0)
            assigned[member] += [TopicPartition(topic, index) for index in range(first, last)]
            first = last
    return assigned
