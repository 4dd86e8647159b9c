"""OffsetDelete (key 47): v0.

Behaviour (KIP-496)
- Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; topics that the group's consumers are
  subscribed to are GROUP_SUBSCRIBED_TO_TOPIC; for the rest the offset is forgotten.
- Errors of the group (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP for a group of another protocol type) are
  at the top, without topics.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.coordinators.runtime.promise import then
from kwire.requests.context import Context


def handle(
    broker: Broker, request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    refused = _sort_out(broker, request)
    reply = broker.coordinators.groups.delete_offsets(request)
    return then(reply, lambda response: _merge(response, refused))


def _sort_out(broker: Broker, request: OffsetDeleteRequest) -> list[OffsetDeleteResponseTopic]:
    """Leave in the request what exists; the answers for what does not."""
    known, refused = [], []
    for topic in request.topics:
        hosted = broker.image.topics.get(topic.name)
        count = 0 if hosted is None else len(hosted.partitions)
        there = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if len(there) < len(topic.partitions):
            others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
            refused.append(_refused(topic, others))
            topic.partitions = there
        if there:
            known.append(topic)
    request.topics = known
    return refused


def _refused(
    topic: OffsetDeleteRequestTopic, partitions: list[OffsetDeleteRequestPartition]
) -> OffsetDeleteResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[OffsetDeleteResponsePartition(p.partition_index, error) for p in partitions],
    )


def _merge(
    response: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE:
        return response
    begun = {topic.name: topic for topic in refused}
    merged = list(refused)
    for topic in response.topics:
        if topic.name in begun:
            begun[topic.name].partitions += topic.partitions
        else:
            merged.append(topic)
    response.topics = merged
    return response
