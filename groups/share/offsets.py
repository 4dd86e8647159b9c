"""Where a share group reads from: what an administrator may change of it.

The offsets themselves are kept by the share coordinator.  Here it is decided whether they may be
changed, which the group notes before the share coordinator is asked and once it has answered.
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
from kwire.groups.share.initializing import NOTHING, Topics

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_EMPTY = "The group is not empty."
NOT_HOSTED = "This server does not host this topic-partition."
NOTHING_TO_DELETE = "There is no offset information to delete."

Wanted = Mapping[str, list[tuple[int, int]]]
"""By topic name: partitions, and where they are to be read from."""


class Alteration(NamedTuple):
    """What is answered, and what the share coordinator has to be told first."""

    response: AlterShareGroupOffsetsResponse
    group_epoch: int = 0
    topics: Topics = NOTHING
    offsets: Mapping[tuple[bytes, int], int] = {}


class Deletion(NamedTuple):
    """Likewise; the topics are to be forgotten."""

    response: DeleteShareGroupOffsetsResponse
    topics: Topics = NOTHING


def alteration(group: ShareGroup, wanted: Wanted, image: ClusterImage) -> Alteration:
    """Of a group without members.  The last offset of a partition that is named twice counts."""
    response = AlterShareGroupOffsetsResponse()
    places: dict[bytes, frozenset[int]] = {}
    names: dict[bytes, str] = {}
    offsets: dict[tuple[bytes, int], int] = {}
    for name, partitions in wanted.items():
        topic = image.topics.get(name)
        if topic is not None and any(index < 0 for index, _ in partitions):
            return Alteration(_cannot_be(group.group_id, topic.id, partitions))
        told = AlterShareGroupOffsetsResponseTopic(name)
        response.responses.append(told)
        for index, offset in partitions:
            there = topic is not None and index < len(topic.partitions)
            told.partitions.append(_altered(index, there=there))
            if topic is not None and there:
                offsets[topic.id, index] = offset
                places[topic.id] = places.get(topic.id, frozenset()) | {index}
        if topic is not None:
            told.topic_id = topic.id
            names[topic.id] = name
    topics = Topics(places, {topic_id: names[topic_id] for topic_id in places})
    return Alteration(response, group.epoch, topics, offsets)


def _cannot_be(
    group_id: str, topic_id: bytes, partitions: list[tuple[int, int]]
) -> AlterShareGroupOffsetsResponse:
    """Partitions below 0, in Apache Kafka's words."""
    index = next(index for index, _ in partitions if index < 0)
    sentence = "Initialize share group parameters has invalid partitionId - "
    sentence += f"{group_id} {uuid_text(topic_id)} {index}"
    return AlterShareGroupOffsetsResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR, sentence)


def _altered(index: int, *, there: bool) -> AlterShareGroupOffsetsResponsePartition:
    if there:
        return AlterShareGroupOffsetsResponsePartition(index)
    return AlterShareGroupOffsetsResponsePartition(index, UNKNOWN, NOT_HOSTED)


def deletion(group: ShareGroup, names: Iterable[str], image: ClusterImage) -> Deletion:
    """Of a group without members.  Topics of which something is deleted are told of first."""
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
    topics = known.only({each.topic_id: known.of(each.topic_id) for each in done})
    return Deletion(DeleteShareGroupOffsetsResponse(responses=[*done, *failed]), topics)
