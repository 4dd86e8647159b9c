"""OffsetCommit (key 8): v2-10.

Behaviour
- Unknown partitions are refused one by one, before the group is checked; if no other is left, the
  group is not checked at all.  An error of the group is the error of every remaining partition.
- With generation -1 an empty or new group accepts a commit from any client.
- OFFSET_METADATA_TOO_LARGE above `offset.metadata.max.bytes`.
- The response waits until the offsets are committed in `__consumer_offsets`.

Version notes: a retention time in v2-4; leader epochs from v6; group instance ids from v7; flexible
from v8; a group that does not exist gives GROUP_ID_NOT_FOUND from v9, ILLEGAL_GENERATION before;
topics by id from v10, UNKNOWN_TOPIC_ID for an unknown one.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
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
from kwire.requests.guards.base import Access, Proceed, Request, Response, reshaped
from kwire.requests.route import Right, Route

TOPIC_IDS_SINCE = 10

ROUTE = Route(ApiKey.OFFSET_COMMIT, 2, 10, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit the offsets of existing partitions; return an error for each unknown one."""
    known, refused = _known_and_refused(broker, request, context.api_version)
    if not known:
        return OffsetCommitResponse(topics=refused)
    request.topics = known
    reply = broker.coordinators.groups.commit_offsets(request, context.api_version)
    return then(reply, lambda response: _merge(response, refused) if refused else response)


def _by_topic(refused: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    """One answer per topic, also for a topic that stands twice in the request."""
    topics: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}
    for topic in refused:
        first = topics.setdefault((topic.topic_id, topic.name), topic)
        if first is not topic:
            first.partitions += topic.partitions
    return list(topics.values())


def _known_and_refused(
    broker: Broker, request: OffsetCommitRequest, version: int
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The existing partitions, with names and ids filled in, and the answers for unknown ones."""
    image = broker.image
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    unknown_topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= TOPIC_IDS_SINCE:
        unknown_topic = ErrorCode.UNKNOWN_TOPIC_ID
        for topic in request.topics:
            topic.name = image.names_by_id.get(topic.topic_id, "")
    for topic in request.topics:
        topic_image = image.topics.get(topic.name)
        if topic_image is None:
            refused.append(_refused(topic, topic.partitions, unknown_topic))
            continue
        topic.topic_id = topic_image.id
        count = len(topic_image.partitions)
        existing = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if len(existing) < len(topic.partitions):
            others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
            refused.append(_refused(topic, others, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = existing
        if existing:
            known.append(topic)
    return known, _by_topic(refused) if len(refused) > 1 else refused


def _refused(
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    error: ErrorCode,
) -> OffsetCommitResponseTopic:
    """Return the answer of a topic in which each of `partitions` has `error`."""
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[OffsetCommitResponsePartition(p.partition_index, error) for p in partitions],
    )


def _merge(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """One answer per topic; refused partitions come first, as in Apache Kafka."""
    refused_topics = {topic.topic_id: topic for topic in refused if topic.name}
    merged = list(refused)
    for topic in response.topics:
        refused_topic = refused_topics.get(topic.topic_id)
        if refused_topic is None:
            merged.append(topic)
        else:
            refused_topic.partitions += topic.partitions
    response.topics = merged
    return response


# -- rights


def guard(access: Access, request: OffsetCommitRequest, proceed: Proceed) -> Response:
    """Require READ on the group, and READ on each topic; refuse the other topics one by one.

    From version 10 the request has topic ids only, so their names are looked up first.
    """
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return OffsetCommitResponse(
            topics=[
                _uncommitted(topic, ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for topic in request.topics
            ]
        )
    if access.version >= TOPIC_IDS_SINCE:
        for topic in request.topics:
            topic.name = access.broker.image.names_by_id.get(topic.topic_id, "")
    request.topics, denied = access.split(
        AclOperation.READ,
        ResourceType.TOPIC,
        request.topics,
        lambda topic: topic.name,
        nameless=True,
    )
    refused = [_uncommitted(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]

    def merge(response: OffsetCommitResponse) -> OffsetCommitResponse:
        response.topics = [*refused, *response.topics]
        return response

    return reshaped(proceed(request), merge)


def _uncommitted(topic: Request, error: ErrorCode) -> OffsetCommitResponseTopic:
    """Return the answer of a topic in which each partition has `error`."""
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition.partition_index, error)
            for partition in topic.partitions
        ],
    )
