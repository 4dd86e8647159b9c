"""What members of the classic protocol say, and are told, within its messages.

Their subscriptions and assignments are messages of the clients' own, "embedded" in the classic
protocol's as bytes: a version, then the message.  A newer version than is known here is read as
the newest that is.
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
    """Raises DecodeError."""
    return _decode(data, ConsumerProtocolSubscription)


def assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Raises DecodeError."""
    return _decode(data, ConsumerProtocolAssignment)


def _decode(data: bytes, kind: type[M]) -> M:
    version = min(version_of(data), kind.MAX_VERSION)
    return kind.decode(data, version, _VERSION.size)


def version_of(data: bytes) -> int:
    """Raises DecodeError."""
    if len(data) < _VERSION.size:
        raise DecodeError("an embedded message without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"an embedded message of version {version}")
    return version


def encoded_assignment(
    partitions: Mapping[bytes, Iterable[int]], image: ClusterImage, version: int
) -> bytes:
    """Partitions by topic id, for a member that speaks this version; topics that are gone: not."""
    version = min(version, ConsumerProtocolAssignment.MAX_VERSION)
    names = ((topic_id, image.names_by_id.get(topic_id)) for topic_id in partitions)
    topics = [
        TopicPartition(name, sorted(partitions[topic_id]))
        for topic_id, name in names
        if name is not None
    ]
    return _VERSION.pack(version) + ConsumerProtocolAssignment(topics).encode(version)


def owned(said: ConsumerProtocolSubscription, image: ClusterImage) -> list[TopicPartitions]:
    """What a member says it owns, by topic id."""
    return [
        TopicPartitions(image.topics[topic.topic].id, list(topic.partitions))
        for topic in said.owned_partitions
        if topic.topic in image.topics
    ]


def assigned(told: ConsumerProtocolAssignment, image: ClusterImage) -> dict[bytes, list[int]]:
    """What a member was told to own, by topic id."""
    partitions: dict[bytes, list[int]] = {}
    for topic in told.assigned_partitions:
        if topic.topic in image.topics:
            partitions.setdefault(image.topics[topic.topic].id, []).extend(topic.partitions)
    return partitions
