"""The subscriptions and assignments of consumers, embedded in classic messages as bytes.

They are messages of the clients ("embedded protocol"): a version, then the message.  A version that
is newer than the known ones is read as the newest known one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.consumer_group_heartbeat import TopicPartitions
from kwire.codecs.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.primitives import DecodeError, Message

_VERSION = struct.Struct(">h")

M = TypeVar("M", bound=Message)


def subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A decoded subscription.  Raises DecodeError."""
    return _decode(data, ConsumerProtocolSubscription)


def assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A decoded assignment.  Raises DecodeError."""
    return _decode(data, ConsumerProtocolAssignment)


def _decode(data: bytes, kind: type[M]) -> M:
    version = min(version_of(data), kind.MAX_VERSION)
    return kind.decode(data, version, _VERSION.size)


def version_of(data: bytes) -> int:
    """The version of an embedded message.  Raises DecodeError."""
    if len(data) < _VERSION.size:
        raise DecodeError("an embedded message without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"an embedded message of version {version}")
    return version


def encoded_assignment(
    partitions: Mapping[bytes, Iterable[int]], image: ClusterImage, version: int
) -> bytes:
    """An encoded assignment of partitions (by topic id), without topics that were deleted."""
    version = min(version, ConsumerProtocolAssignment.MAX_VERSION)
    names = ((topic_id, image.names_by_id.get(topic_id)) for topic_id in partitions)
    topics = [
        TopicPartition(name, sorted(partitions[topic_id]))
        for topic_id, name in names
        if name is not None
    ]
    return _VERSION.pack(version) + ConsumerProtocolAssignment(topics).encode(version)


def owned(subscription: ConsumerProtocolSubscription, image: ClusterImage) -> list[TopicPartitions]:
    """The owned partitions in a subscription, by topic id."""
    return [
        TopicPartitions(image.topics[topic.topic].id, list(topic.partitions))
        for topic in subscription.owned_partitions
        if topic.topic in image.topics
    ]


def assigned(assignment: ConsumerProtocolAssignment, image: ClusterImage) -> dict[bytes, list[int]]:
    """The partitions of an assignment, by topic id."""
    partitions: dict[bytes, list[int]] = {}
    for topic in assignment.assigned_partitions:
        if topic.topic in image.topics:
            partitions.setdefault(image.topics[topic.topic].id, []).extend(topic.partitions)
    return partitions
