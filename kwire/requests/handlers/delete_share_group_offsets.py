"""DeleteShareGroupOffsets (key 92): v0.

Behaviour
- Deletes the offsets of topics from a share group without members.  If the group reads them again,
  it starts where its settings say.
- GROUP_ID_NOT_FOUND for a group that does not exist or is of another type, NON_EMPTY_GROUP,
  INVALID_GROUP_ID for an empty id.
- UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist, or that the group has not read.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kwire.requests.context import Context
from kwire.requests.handlers.alter_share_group_offsets import NO_GROUP, UNSUPPORTED
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.offsets import delete


def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: Context
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    if not is_served(broker):
        return DeleteShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED)
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, NO_GROUP)
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    return delete(broker, request.group_id, names)
