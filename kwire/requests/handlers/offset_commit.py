"""OffsetCommit (key 8): v2-10.

Behaviour
- Partitions that do not exist are refused one by one, before the group is asked; if none is left
  the group is not asked at all.  An error of the group is every remaining partition's error.
- Without a generation (-1) an empty or new group accepts a commit from anyone.
- OFFSET_METADATA_TOO_LARGE above `offset.metadata.max.bytes`.
- The reply waits until the offsets are committed in `__consumer_offsets`.

Version notes: the retention may be given in v2-4; leader epochs from v6; group instance ids from
v7; flexible from v8; from v9 a group that does not exist is GROUP_ID_NOT_FOUND, before
ILLEGAL_GENERATION; topics by id from v10, UNKNOWN_TOPIC_ID if there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.coordinators.runtime.promise import then
from kwire.requests.context import Context

TOPIC_IDS_SINCE = 10


def handle(
    broker: Broker, request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    known, refused = _sort_out(broker, request, context.api_version)
    if not known:
        return OffsetCommitResponse(topics=refused)
    request.topics = known
    reply = broker.coordinators.groups.commit_offsets(request, context.api_version)
    return then(reply, lambda response: _merge(response, refused) if refused else response)


def _by_topic(refused: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    """One answer a topic, also for one that the request names twice."""
    topics: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}
    for topic in refused:
        first = topics.setdefault((topic.topic_id, topic.name), topic)
        if first is not topic:
            first.partitions += topic.partitions
    return list(topics.values())


def _sort_out(
    broker: Broker, request: OffsetCommitRequest, version: int
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """What exists, with names and ids filled in, and the answers for what does not."""
    image = broker.image
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= TOPIC_IDS_SINCE:
        missing = ErrorCode.UNKNOWN_TOPIC_ID
        for topic in request.topics:
            topic.name = image.names_by_id.get(topic.topic_id, "")
    for topic in request.topics:
        hosted = image.topics.get(topic.name)
        if hosted is None:
            refused.append(_refused(topic, topic.partitions, missing))
            continue
        topic.topic_id = hosted.id
        count = len(hosted.partitions)
        there = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if len(there) < len(topic.partitions):
            others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
            refused.append(_refused(topic, others, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = there
        if there:
            known.append(topic)
    return known, _by_topic(refused) if len(refused) > 1 else refused


def _refused(
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    error: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(p.partition_index, error) for p in partitions],
    )


def _merge(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """One answer a topic; what was refused comes first, as in Apache Kafka."""
    topics = {topic.topic_id: topic for topic in refused if topic.name}
    merged = list(refused)
    for topic in response.topics:
        begun = topics.get(topic.topic_id)
        if begun is None:
            merged.append(topic)
        else:
            begun.partitions += topic.partitions
    response.topics = merged
    return response
