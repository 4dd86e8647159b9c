"""ConsumerGroupDescribe (key 69): v0-1.

Behaviour
- The response has the epochs and members of consumer groups (KIP-848), with each member's current
  and target assignment.
- GROUP_ID_NOT_FOUND for a group that does not exist or is of another type.

Version notes: the type of a member (classic or consumer) from v1.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kwire.codecs.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.describing import completing_response, split_groups
from kwire.requests.handlers.consumer_group_heartbeat import is_served
from kwire.requests.route import Right, Route
from kwire.security.operations import tell_group_operations

ROUTE = Route(
    ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, Right(AclOperation.DESCRIBE, ResourceType.GROUP)
)


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    """Return the state and members of each consumer group, as its coordinator describes it."""
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [DescribedGroup(error_code=error, group_id=each) for each in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)
    with_operations = request.include_authorized_operations
    replies = [
        broker.coordinators.groups.describe_consumer_group(group_id)
        for group_id in request.group_ids
    ]
    return then_all(replies, lambda groups: _response(groups, with_operations))


def _response(groups: list[DescribedGroup], with_operations: bool) -> ConsumerGroupDescribeResponse:
    tell_group_operations(groups, asked=with_operations)
    return ConsumerGroupDescribeResponse(groups=groups)


# -- rights


def guard(access: Access, request: ConsumerGroupDescribeRequest, proceed: Proceed) -> Response:
    """Describe only groups that the sender may describe; refuse the others one by one."""
    request.group_ids, refused = split_groups(access, request.group_ids, DescribedConsumerGroup)
    return reshaped(proceed(request), completing_response(access, request, refused, _topic_names))


def _topic_names(group: DescribedConsumerGroup) -> set[str]:
    """The topics of all current and target assignments."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
