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
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kwire.requests.context import Context
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.offsets import alter

NO_GROUP = "The group id is invalid."
UNSUPPORTED = "The version of API is not supported."


def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: Context
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    if not is_served(broker):
        return AlterShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED)
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, NO_GROUP)
    start_offsets: dict[str, list[tuple[int, int]]] = {}
    for topic in request.topics:
        offsets = ((data.partition_index, data.start_offset) for data in topic.partitions)
        start_offsets.setdefault(topic.topic_name, []).extend(offsets)
    return alter(broker, request.group_id, start_offsets)
