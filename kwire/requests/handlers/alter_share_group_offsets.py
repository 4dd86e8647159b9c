"""AlterShareGroupOffsets (key 91): v0.

Behaviour
- Sets the start offsets of a share group without members; a group that does not exist is created.
  Any offset is valid, also one outside the log; with -1 the group's settings decide.
- GROUP_ID_NOT_FOUND for a group of another type, NON_EMPTY_GROUP, INVALID_GROUP_ID for an empty id.
- UNKNOWN_TOPIC_OR_PARTITION for an unknown partition; the others are changed.
- UNKNOWN_SERVER_ERROR for a negative partition, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.offsets import alter
from kwire.requests.route import Right, Route

NO_GROUP = "The group id is invalid."
UNSUPPORTED = "The version of API is not supported."

ROUTE = Route(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: Context
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    """Set the start offsets of the share group, and return one result per partition."""
    if not is_served(broker):
        return AlterShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED)
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, NO_GROUP)
    start_offsets: dict[str, list[tuple[int, int]]] = {}
    for topic in request.topics:
        offsets = ((data.partition_index, data.start_offset) for data in topic.partitions)
        start_offsets.setdefault(topic.topic_name, []).extend(offsets)
    return alter(broker, request.group_id, start_offsets)


# -- rights


def guard(access: Access, request: AlterShareGroupOffsetsRequest, proceed: Proceed) -> Response:
    """Require READ on the group, and READ on each topic; refuse the other topics one by one.

    If the handler refuses the whole request, the response has only its error.
    """
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AlterShareGroupOffsetsResponse(
            0, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
        )
    request.topics, hidden = access.split(
        AclOperation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.topic_name
    )

    def merge(response: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
        if response.error_code == ErrorCode.NONE:
            response.responses += [_unaltered(topic) for topic in hidden]
        return response

    return reshaped(proceed(request), merge)


def _unaltered(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    """Return the result of a topic that the sender may not read."""
    return AlterShareGroupOffsetsResponseTopic(
        topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition.partition_index,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "Topic authorization failed.",
            )
            for partition in topic.partitions
        ],
    )
