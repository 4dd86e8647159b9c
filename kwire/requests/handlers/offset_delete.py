"""OffsetDelete (key 47): v0.

Behaviour (KIP-496)
- Deletes committed offsets.  Unknown partitions give UNKNOWN_TOPIC_OR_PARTITION; topics to which a
  member of the group is subscribed give GROUP_SUBSCRIBED_TO_TOPIC.
- An error of the group (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP for a group of another protocol type)
  is the error of the response, which then has no topics.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
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
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.OFFSET_DELETE, 0, 0, Right(AclOperation.DELETE, ResourceType.GROUP))


def handle(
    broker: Broker, request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Delete the committed offsets of existing partitions; refuse unknown ones."""
    refused = _remove_unknown(broker, request)
    reply = broker.coordinators.groups.delete_offsets(request)
    return then(reply, lambda response: _merge(response, refused))


def _remove_unknown(
    broker: Broker, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Remove unknown partitions from the request; return their answers."""
    known, refused = [], []
    for topic in request.topics:
        topic_image = broker.image.topics.get(topic.name)
        count = 0 if topic_image is None else len(topic_image.partitions)
        existing = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if len(existing) < len(topic.partitions):
            others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
            refused.append(_refused(topic, others))
            topic.partitions = existing
        if existing:
            known.append(topic)
    request.topics = known
    return refused


def _refused(
    topic: OffsetDeleteRequestTopic, partitions: list[OffsetDeleteRequestPartition]
) -> OffsetDeleteResponseTopic:
    """Return the answer of a topic whose `partitions` do not exist."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[OffsetDeleteResponsePartition(p.partition_index, error) for p in partitions],
    )


def _merge(
    response: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    """Add the refused partitions before the others of their topic.

    If the group has an error, the response has no topics and stays as it is.
    """
    if response.error_code != ErrorCode.NONE:
        return response
    refused_topics = {topic.name: topic for topic in refused}
    merged = list(refused)
    for topic in response.topics:
        if topic.name in refused_topics:
            refused_topics[topic.name].partitions += topic.partitions
        else:
            merged.append(topic)
    response.topics = merged
    return response


# -- rights


def guard(access: Access, request: OffsetDeleteRequest, proceed: Proceed) -> Response:
    """Require DELETE on the group, and READ on each topic; refuse the other topics one by one."""
    if not access.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed, denied = access.split(
        AclOperation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    request.topics = allowed
    refused = [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(
                    partition.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]

    def merge(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            response.topics = [*refused, *response.topics]
        return response

    return reshaped(proceed(request), merge)
