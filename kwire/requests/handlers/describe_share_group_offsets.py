"""DescribeShareGroupOffsets (key 90): v0-1.

Behaviour
- The response has the start offsets of share groups and the leader epoch that wrote them, -1 for
  partitions that a group has not read.  A null list of topics requests all partitions of the group.
- The answers come from the share coordinator, so the group need not exist, and a group of another
  type has no offsets.  Nor need the partition exist: Apache Kafka gives the same answer, after half
  a minute.
- UNKNOWN_SERVER_ERROR for an empty group id, a topic without partitions or a negative partition, as
  in Apache Kafka.  An empty list of topics is no error.

Version notes: the lag, which is the number of records left for the group, from v1 (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup as DescribedOffsets,
)
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.latest import Latest, latest_offsets
from kwire.requests.handlers.share_groups.offsets import known_places, summaries
from kwire.requests.route import Right, Route

Group = DescribeShareGroupOffsetsResponseGroup
Topic = DescribeShareGroupOffsetsResponseTopic
Partition = DescribeShareGroupOffsetsResponsePartition

PartitionsByTopic = dict[str, list[int]]

UNEXPECTED = "The server experienced an unexpected error when processing the request."
NO_LAG = -1

ROUTE = Route(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, Right(AclOperation.DESCRIBE, ResourceType.GROUP)
)


def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: Context
) -> Awaitable[DescribeShareGroupOffsetsResponse] | DescribeShareGroupOffsetsResponse:
    """Return the start offsets of each share group; UNSUPPORTED_VERSION if they are disabled."""
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [Group(group.group_id, error_code=error) for group in request.groups]
        return DescribeShareGroupOffsetsResponse(groups=groups)
    return _answer(broker, request)


async def _answer(
    broker: Broker, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Return the response; the groups are described one after the other."""
    groups = [await _described(broker, requested) for requested in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _described(broker: Broker, requested: DescribeShareGroupOffsetsRequestGroup) -> Group:
    """Return the offsets of one group, for the requested topics or for all that it has read.

    Apache Kafka fails if an existing topic has an invalid partition, or the group id is empty: this
    gives UNKNOWN_SERVER_ERROR too.
    """
    group_id = requested.group_id
    if requested.topics is None:
        known = await known_places(broker, group_id)
        if known.error:
            return Group(group_id, error_code=known.error)
        partitions = {
            name: sorted(known.topics.of(topic_id)) for topic_id, name in known.topics.names.items()
        }
        return await _with_offsets(broker, group_id, partitions)
    partitions = {}
    for topic in requested.topics:
        partitions.setdefault(topic.topic_name, []).extend(topic.partitions)
    existing = [indexes for name, indexes in partitions.items() if name in broker.image.topics]
    if existing and not (group_id and all(map(_is_valid, existing))):
        return Group(group_id, [], ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    return await _with_offsets(broker, group_id, partitions)


def _is_valid(partition_indexes: list[int]) -> bool:
    return bool(partition_indexes) and min(partition_indexes) >= 0


async def _with_offsets(broker: Broker, group_id: str, partitions: PartitionsByTopic) -> Group:
    """The group with the offsets of `partitions`; those of unknown topics have none."""
    topics = broker.image.topics
    ids = {name: topics[name].id for name in partitions if name in topics}
    existing = [(topic_id, partitions[name]) for name, topic_id in ids.items()]
    answers = await summaries(broker, group_id, existing)
    started = [
        (broker.metadata.topic_names[key.topic_id], key.partition)
        for key, answer in answers.items()
        if key.topic_id in broker.metadata.topic_names
        and answer.state is not None
        and answer.state.start_offset != NO_OFFSET
    ]
    ends = await latest_offsets(broker, started)
    responses = {
        name: [
            _partition(key.partition, answer, ends.get((name, key.partition)))
            for key, answer in answers.items()
            if key.topic_id == topic_id
        ]
        for name, topic_id in ids.items()
    }
    return Group(
        group_id,
        [
            Topic(name, ids[name], responses[name])
            if name in ids
            else Topic(name, partitions=[Partition(index, NO_OFFSET) for index in indexes])
            for name, indexes in partitions.items()
        ],
    )


def _partition(index: int, answer: ShareStateAnswer, end: Latest | None) -> Partition:
    """Return the start offset of one partition, and its lag if the end of the log is known.

    `end` is None for a partition that the group has not read: it has no lag.
    """
    state = answer.state
    if answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Partition(index, NO_OFFSET)
    if state is None:
        return Partition(index, error_code=answer.error, error_message=answer.message)
    partition = Partition(index, state.start_offset, state.leader_epoch, NO_LAG)
    if end is not None and end.error:
        partition.error_code = end.error
    elif end is not None:
        partition.lag = end.offset - state.start_offset - state.delivery_complete_count
    return partition


# -- rights


def guard(access: Access, request: DescribeShareGroupOffsetsRequest, proceed: Proceed) -> Response:
    """Require DESCRIBE on each group and topic; refuse the others one by one.

    If a group's request names no topics, those that the sender may not describe are left out.
    """
    requested = list(request.groups)
    allowed, denied = access.split(
        AclOperation.DESCRIBE, ResourceType.GROUP, requested, lambda group: group.group_id
    )
    hidden = {id(group): _hide_topics(access, group) for group in allowed}
    request.groups = allowed

    def merge(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        """Hide topics that the sender may not see, and put the refused groups in their places."""
        for requested_group, group in zip(allowed, response.groups, strict=True):
            if requested_group.topics is None:
                group.topics = _visible_topics(access, group.topics)
            group.topics += hidden[id(requested_group)]
        answers = iter(response.groups)
        response.groups = [
            DescribedOffsets(group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if group in denied
            else next(answers)
            for group in requested
        ]
        return response

    return reshaped(proceed(request), merge)


def _hide_topics(
    access: Access, group: DescribeShareGroupOffsetsRequestGroup
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """Remove topics that the sender may not describe from the request; return their answers."""
    topics, hidden = access.split(
        AclOperation.DESCRIBE,
        ResourceType.TOPIC,
        group.topics or (),
        lambda topic: topic.topic_name,
    )
    if hidden:
        group.topics = topics
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                DescribeShareGroupOffsetsResponsePartition(
                    index,
                    -1,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="Topic authorization failed.",
                )
                for index in topic.partitions
            ],
        )
        for topic in hidden
    ]


def _visible_topics(
    access: Access, topics: list[DescribeShareGroupOffsetsResponseTopic]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """Return the topics that the sender may describe."""
    visible, _ = access.split(
        AclOperation.DESCRIBE, ResourceType.TOPIC, topics, lambda topic: topic.topic_name
    )
    return visible
