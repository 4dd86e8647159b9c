"""DescribeGroups (key 15): v0-6.

Behaviour
- The chosen protocol, and the members' metadata for it, are told of a stable group only.
- A group that does not exist is Dead: without an error before v6, with GROUP_ID_NOT_FOUND and a
  message from v6 (KIP-1043).

Version notes: authorized operations may be asked for from v3; group instance ids from v4; flexible
from v5.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.context import Context
from kwire.coordinators.promise import Promise

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, as bits at their AclOperation codes:
all that can be done to a group, which is what anyone may do while nobody is forbidden anything."""


def handle(
    broker: Broker, request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    version = context.api_version
    with_operations = request.include_authorized_operations
    replies = [broker.groups.describe_group(group_id, version) for group_id in request.groups]
    if any(isinstance(reply, Promise) for reply in replies):
        return _wait(replies, with_operations)
    return _response(replies, with_operations)


async def _wait(
    replies: list[DescribedGroup | Promise[DescribedGroup]], with_operations: bool
) -> DescribeGroupsResponse:
    done = [await reply.wait() if isinstance(reply, Promise) else reply for reply in replies]
    return _response([*done], with_operations)


def _response(
    replies: list[DescribedGroup | Promise[DescribedGroup]], with_operations: bool
) -> DescribeGroupsResponse:
    groups = [reply for reply in replies if isinstance(reply, DescribedGroup)]
    if with_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)
