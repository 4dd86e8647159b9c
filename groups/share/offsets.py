"""Decides AlterShareGroupOffsets and DeleteShareGroupOffsets.

The share coordinator stores the offsets.  The group coordinator decides whether they may be
changed, and records that before it asks the share coordinator and after the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.codecs.uuids import uuid_text
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_EMPTY = "The group is not empty."
NOT_HOSTED = "This server does not host this topic-partition."
NOTHING_TO_DELETE = "There is no offset information to delete."

RequestedOffsets = Mapping[str, list[tuple[int, int]]]
"""Topic name -> (partition, new start offset)."""


class OffsetAlteration(NamedTuple):
    """The response, and the offsets to send to the share coordinator before it."""

    response: AlterShareGroupOffsetsResponse
    group_epoch: int = 0
    topics: StateTopicPartitions = NOTHING
    offsets: Mapping[tuple[bytes, int], int] = {}


class OffsetDeletion(NamedTuple):
    """The response, and the topics whose state the share coordinator deletes before it."""

    response: DeleteShareGroupOffsetsResponse
    topics: StateTopicPartitions = NOTHING


def alteration(
    group: ShareGroup, wanted: RequestedOffsets, image: ClusterImage
) -> OffsetAlteration:
    """Decide for a group without members.  If a partition is named twice, the last offset wins."""
    response = AlterShareGroupOffsetsResponse()
    places: dict[bytes, frozenset[int]] = {}
    names: dict[bytes, str] = {}
    offsets: dict[tuple[bytes, int], int] = {}
    for name, partitions in wanted.items():
        topic = image.topics.get(name)
        if topic is not None and any(index < 0 for index, _ in partitions):
            return OffsetAlteration(_negative_partition(group.group_id, topic.id, partitions))
        topic_response = AlterShareGroupOffsetsResponseTopic(name)
        response.responses.append(topic_response)
        for index, offset in partitions:
            exists = topic is not None and index < len(topic.partitions)
            topic_response.partitions.append(_altered(index, exists=exists))
            if topic is not None and exists:
                offsets[topic.id, index] = offset
                places[topic.id] = places.get(topic.id, frozenset()) | {index}
        if topic is not None:
            topic_response.topic_id = topic.id
            names[topic.id] = name
    topics = StateTopicPartitions(places, {topic_id: names[topic_id] for topic_id in places})
    return OffsetAlteration(response, group.epoch, topics, offsets)


def _negative_partition(
    group_id: str, topic_id: bytes, partitions: list[tuple[int, int]]
) -> AlterShareGroupOffsetsResponse:
    """The response to a partition below 0, with Apache Kafka's message."""
    index = next(index for index, _ in partitions if index < 0)
    message = "Initialize share group parameters has invalid partitionId - "
    message += f"{group_id} {uuid_text(topic_id)} {index}"
    return AlterShareGroupOffsetsResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _altered(index: int, *, exists: bool) -> AlterShareGroupOffsetsResponsePartition:
    """Return the result of one partition: no error, or that it does not exist."""
    if exists:
        return AlterShareGroupOffsetsResponsePartition(index)
    return AlterShareGroupOffsetsResponsePartition(index, UNKNOWN, NOT_HOSTED)


def deletion(group: ShareGroup, names: Iterable[str], image: ClusterImage) -> OffsetDeletion:
    """Decide for a group without members.  In the response, deleted topics precede failed ones."""
    done: list[DeleteShareGroupOffsetsResponseTopic] = []
    failed: list[DeleteShareGroupOffsetsResponseTopic] = []
    known = group.state_topics.known
    for name in names:
        topic = image.topics.get(name)
        if topic is not None and topic.id in known.partitions:
            done.append(DeleteShareGroupOffsetsResponseTopic(name, topic.id))
        else:
            why = NOT_HOSTED if topic is None else NOTHING_TO_DELETE
            failed.append(
                DeleteShareGroupOffsetsResponseTopic(name, error_code=UNKNOWN, error_message=why)
            )
    topics = known.only({topic.topic_id: known.of(topic.topic_id) for topic in done})
    return OffsetDeletion(DeleteShareGroupOffsetsResponse(responses=[*done, *failed]), topics)
