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
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.handlers.alter_share_group_offsets import NO_GROUP, UNSUPPORTED
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.handlers.share_groups.offsets import delete
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, Right(AclOperation.DELETE, ResourceType.GROUP)
)


def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: Context
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    """Delete the share group's offsets of each topic, and return one result per topic."""
    if not is_served(broker):
        return DeleteShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED)
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, NO_GROUP)
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    return delete(broker, request.group_id, names)


# -- rights


def guard(access: Access, request: DeleteShareGroupOffsetsRequest, proceed: Proceed) -> Response:
    """Require DELETE on the group, and READ on each topic; refuse the other topics one by one."""
    if not access.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return DeleteShareGroupOffsetsResponse(
            0, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
        )
    request.topics, hidden = access.split(
        AclOperation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.topic_name
    )

    def merge(response: DeleteShareGroupOffsetsResponse) -> DeleteShareGroupOffsetsResponse:
        """Add the refused topics, unless the handler refuses the whole request."""
        if response.error_code == ErrorCode.NONE:
            response.responses += [
                DeleteShareGroupOffsetsResponseTopic(
                    topic.topic_name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="Topic authorization failed.",
                )
                for topic in hidden
            ]
        return response

    return reshaped(proceed(request), merge)
