"""AlterShareGroupOffsets (key 91): v0.

Behaviour
- Has a share group without members read partitions from elsewhere; one that does not exist begins.
  Any offset is taken, also one that is not in the log; -1 is where the group's settings say.
- GROUP_ID_NOT_FOUND for a group of another kind, NON_EMPTY_GROUP, INVALID_GROUP_ID for none.
- UNKNOWN_TOPIC_OR_PARTITION for a partition; the others are altered.
- UNKNOWN_SERVER_ERROR for a partition below 0, and nothing is altered.
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
    wanted: dict[str, list[tuple[int, int]]] = {}
    for topic in request.topics:
        places = ((each.partition_index, each.start_offset) for each in topic.partitions)
        wanted.setdefault(topic.topic_name, []).extend(places)
    return alter(broker, request.group_id, wanted)
