"""ShareGroupDescribe (key 77): v1.

Behaviour
- The response has the epochs and members of share groups, with each member's assignment.
- GROUP_ID_NOT_FOUND for a group that does not exist or is of another type.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.describing import completing_response, split_groups
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.route import Right, Route
from kwire.security.operations import tell_group_operations

ROUTE = Route(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(
    broker: Broker, request: ShareGroupDescribeRequest, context: Context
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    """Return the state and members of each share group, as its coordinator describes it."""
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [DescribedGroup(error_code=error, group_id=each) for each in request.group_ids]
        return ShareGroupDescribeResponse(groups=groups)
    with_operations = request.include_authorized_operations
    replies = [
        broker.coordinators.groups.describe_share_group(group_id) for group_id in request.group_ids
    ]
    return then_all(replies, lambda groups: _response(groups, with_operations))


def _response(groups: list[DescribedGroup], with_operations: bool) -> ShareGroupDescribeResponse:
    tell_group_operations(groups, asked=with_operations)
    return ShareGroupDescribeResponse(groups=groups)


# -- rights


def guard(access: Access, request: ShareGroupDescribeRequest, proceed: Proceed) -> Response:
    """Describe only groups that the sender may describe; refuse the others one by one."""
    request.group_ids, refused = split_groups(access, request.group_ids, DescribedGroup)
    return reshaped(proceed(request), completing_response(access, request, refused, _topic_names))


def _topic_names(group: DescribedGroup) -> set[str]:
    """The topics that are assigned to members or that they subscribe to."""
    assigned = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    return assigned | {name for member in group.members for name in member.subscribed_topic_names}
