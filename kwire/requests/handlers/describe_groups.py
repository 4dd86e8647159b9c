"""DescribeGroups (key 15): v0-6.

Behaviour
- Only a stable group has its protocol, and the members' metadata for it, in the response.
- A group that does not exist is Dead: without an error before v6, with GROUP_ID_NOT_FOUND and a
  message from v6 (KIP-1043).

Version notes: authorized operations may be asked for from v3; group instance ids from v4; flexible
from v5.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.describing import add_operations, split_groups
from kwire.requests.route import Right, Route
from kwire.security.operations import tell_group_operations

ROUTE = Route(ApiKey.DESCRIBE_GROUPS, 0, 6, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(
    broker: Broker, request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    """Return the state and members of each group, as its coordinator describes it."""
    version = context.api_version
    with_operations = request.include_authorized_operations
    replies = [
        broker.coordinators.groups.describe_group(group_id, version) for group_id in request.groups
    ]
    return then_all(replies, lambda groups: _response(groups, with_operations))


def _response(groups: list[DescribedGroup], with_operations: bool) -> DescribeGroupsResponse:
    tell_group_operations(groups, asked=with_operations)
    return DescribeGroupsResponse(groups=groups)


# -- rights


def guard(access: Access, request: DescribeGroupsRequest, proceed: Proceed) -> Response:
    """Describe only groups that the sender may describe; the refused ones come first."""
    request.groups, refused = split_groups(access, request.groups, DescribedGroup)

    def merge(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            add_operations(access, response.groups)
        response.groups = [*refused, *response.groups]
        return response

    return reshaped(proceed(request), merge)
