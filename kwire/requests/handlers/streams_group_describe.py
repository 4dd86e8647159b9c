"""StreamsGroupDescribe (key 89): v0.

Behaviour
- The response has the epochs, topology and members of streams groups, with each member's current
  and target assignment.
- GROUP_ID_NOT_FOUND for a group that does not exist or is of another type.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context
from kwire.requests.handlers.streams_group_heartbeat import is_served
from kwire.security.operations import GROUP_OPERATIONS


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: Context
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    if not is_served(broker):
        error = ErrorCode.UNSUPPORTED_VERSION
        groups = [DescribedGroup(error_code=error, group_id=each) for each in request.group_ids]
        return StreamsGroupDescribeResponse(groups=groups)
    with_operations = request.include_authorized_operations
    replies = [
        broker.coordinators.groups.describe_streams_group(group_id)
        for group_id in request.group_ids
    ]
    return then_all(replies, lambda groups: _response(groups, with_operations))


def _response(groups: list[DescribedGroup], with_operations: bool) -> StreamsGroupDescribeResponse:
    for group in groups if with_operations else ():
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return StreamsGroupDescribeResponse(groups=groups)
