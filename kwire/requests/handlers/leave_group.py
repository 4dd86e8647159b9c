"""LeaveGroup (key 13): v0-5.

Behaviour
- Removes members from the group.  Each has its own answer; the group rebalances once for all.
- A static member may be named by its instance id only, as administrators do to remove it.

Version notes: v0-2 have one member, whose error is that of the response; several members from v3
(KIP-345); flexible from v4; reasons, which are only logged, from v5 (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.coordinators.runtime.promise import then
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

SEVERAL_MEMBERS_SINCE = 3

ROUTE = Route(ApiKey.LEAVE_GROUP, 0, 5, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: LeaveGroupRequest, context: Context
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove the members from the group; before version 3 the request has only one member."""
    version = context.api_version
    if version < SEVERAL_MEMBERS_SINCE:
        request.members = [MemberIdentity(member_id=request.member_id)]
    reply = broker.coordinators.groups.leave_group(request)
    return then(reply, lambda response: _shape(response, version))


def _shape(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Return the response in the form of the version.

    Before version 3 there is one member, whose error is that of the response.
    """
    if version < SEVERAL_MEMBERS_SINCE and response.members:
        return LeaveGroupResponse(error_code=response.members[0].error_code)
    return response
