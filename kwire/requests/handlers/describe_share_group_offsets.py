"""DescribeShareGroupOffsets (key 90): v0-1.

Behaviour
- Tells from where share groups read partitions, and by which epoch of their leader; -1 where
  nothing has been read.  Without topics, of all partitions that the group has begun to read.
- The share coordinator is asked: no group need be there, and one of another kind reads nothing.
  Nor need a partition be there: Apache Kafka says the same of it, after half a minute.
- UNKNOWN_SERVER_ERROR for a group that has no name, a topic without partitions or a partition below
  0, as Apache Kafka has it; an empty list of topics is no error.

Version notes: the lag, which is how many records are left for the group, from v1 (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.machine import Answer
from kwire.requests.context import Context
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.latest import Latest, latest_offsets
from kwire.requests.handlers.share_groups.offsets import known_places, summaries

Group = DescribeShareGroupOffsetsResponseGroup
Topic = DescribeShareGroupOffsetsResponseTopic
Partition = DescribeShareGroupOffsetsResponsePartition

Wanted = dict[str, list[int]]

UNEXPECTED = "The server experienced an unexpected error when processing the request."
NO_LAG = -1


def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: Context
) -> Awaitable[DescribeShareGroupOffsetsResponse] | DescribeShareGroupOffsetsResponse:
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [Group(each.group_id, error_code=error) for each in request.groups]
        return DescribeShareGroupOffsetsResponse(groups=groups)
    return _answer(broker, request)


async def _answer(
    broker: Broker, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    groups = [await _described(broker, wanted) for wanted in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _described(broker: Broker, wanted: DescribeShareGroupOffsetsRequestGroup) -> Group:
    group_id = wanted.group_id
    if wanted.topics is None:
        known = await known_places(broker, group_id)
        if known.error:
            return Group(group_id, error_code=known.error)
        named = {
            name: sorted(known.topics.of(topic_id)) for topic_id, name in known.topics.names.items()
        }
        return await _told(broker, group_id, named)
    asked: Wanted = {}
    for topic in wanted.topics:
        asked.setdefault(topic.topic_name, []).extend(topic.partitions)
    there = {name: places for name, places in asked.items() if name in broker.image.topics}
    if there and not (group_id and all(map(_can_be, there.values()))):
        return Group(group_id, [], ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    return await _told(broker, group_id, asked)


def _can_be(partitions: Iterable[int]) -> bool:
    places = list(partitions)
    return bool(places) and min(places) >= 0


async def _told(broker: Broker, group_id: str, wanted: Wanted) -> Group:
    """Topics that are not there have been read by nobody."""
    topics = broker.image.topics
    ids = {name: topics[name].id for name in wanted if name in topics}
    asked = [(topic_id, wanted[name]) for name, topic_id in ids.items()]
    answers = await summaries(broker, group_id, asked)
    begun = [
        (broker.metadata.topic_names[key.topic_id], key.partition)
        for key, answer in answers.items()
        if key.topic_id in broker.metadata.topic_names
        and answer.state is not None
        and answer.state.start_offset != NO_OFFSET
    ]
    ends = await latest_offsets(broker, begun)
    told = {
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
            Topic(name, ids[name], told[name])
            if name in ids
            else Topic(name, partitions=[Partition(index, NO_OFFSET) for index in partitions])
            for name, partitions in wanted.items()
        ],
    )


def _partition(index: int, answer: Answer, end: Latest | None) -> Partition:
    state = answer.state
    if answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Partition(index, NO_OFFSET)
    if state is None:
        return Partition(index, error_code=answer.error, error_message=answer.message)
    told = Partition(index, state.start_offset, state.leader_epoch, NO_LAG)
    if end is not None and end.error:
        told.error_code = end.error
    elif end is not None:
        told.lag = end.offset - state.start_offset - state.delivery_complete_count
    return told
