"""What members of a consumer group tell each other through the coordinator, and who reads what.

The bytes are Kafka's consumer protocol: an int16 version, then ConsumerProtocolSubscription or
ConsumerProtocolAssignment in that version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from kwire.client.cluster import TopicPartition
from kwire.codecs.messages import consumer_protocol_assignment as assignments
from kwire.codecs.messages import consumer_protocol_subscription as subscriptions

_VERSION = Struct(">h")
_WRITTEN_VERSION = 0
"""Later versions tell what is owned, for cooperative assignors; range does not ask."""


def write_subscription(topics: Iterable[str]) -> bytes:
    """The topics that a member wants."""
    subscription = subscriptions.ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(_WRITTEN_VERSION) + subscription.encode(_WRITTEN_VERSION)


def read_subscription(data: bytes) -> list[str]:
    """The topics that another member wants, whatever version it writes."""
    kind = subscriptions.ConsumerProtocolSubscription
    (version,) = _VERSION.unpack_from(data)
    return list(kind.decode(data, min(version, kind.MAX_VERSION), _VERSION.size).topics)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The partitions that a member gets."""
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
    """The partitions in an assignment; none where it is empty."""
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
    wishes: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Kafka's range assignor: of each topic every member in order gets a run of partitions.

    `wishes` is member id -> topics.  Members are in the order of their ids; those at the front get
    one more where the partitions do not divide.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in wishes}
    for topic in sorted(partition_counts):
        members = sorted(member for member, topics in wishes.items() if topic in set(topics))
        if not members:
            continue
        each, more = divmod(partition_counts[topic], len(members))
        first = 0
        for position, member in enumerate(members):
            last = first + each + (1 if position < more else 0)
            assigned[member] += [TopicPartition(topic, index) for index in range(first, last)]
            first = last
    return assigned
