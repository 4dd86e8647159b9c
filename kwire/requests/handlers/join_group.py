"""JoinGroup (key 11): v0-9.

Behaviour
- The response waits until the group's next generation begins.  A follower of a stable group with
  unchanged protocols gets the present generation at once.
- A dynamic member without an id gets one with MEMBER_ID_REQUIRED and must join again with it (from
  v4).
- INVALID_GROUP_ID and INVALID_SESSION_TIMEOUT (outside `group.min.session.timeout.ms` and
  `group.max.session.timeout.ms`) are checked before the group.

Version notes: the rebalance timeout is the session timeout in v0; KIP-394 (MEMBER_ID_REQUIRED) from
v4; group instance ids (KIP-345) from v5; flexible from v6; the protocol type, and null instead of
an empty name for no protocol, from v7; a reason, which is only logged, from v8 (KIP-800);
skip_assignment from v9 (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.coordinators.runtime.promise import answered, then
from kwire.groups.classic.decision import ClassicCaller
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

if TYPE_CHECKING:
    from kwire.coordinators.runtime.descriptions import TopologyDescriptions
    from kwire.coordinators.runtime.groups import GroupCoordinator

NULL_PROTOCOL_NAME_SINCE = 7

ROUTE = Route(ApiKey.JOIN_GROUP, 0, 9, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: JoinGroupRequest, context: Context
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Let the member join its group; the response waits until the next generation begins."""
    version = context.api_version
    context.joins_groups = True
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = ClassicCaller(context.client_id or "", f"/{context.client_host}", version)
    groups = broker.coordinators.groups
    descriptions = groups.descriptions
    if descriptions is not None and descriptions.must_be_deleted_before_join(request.group_id):
        return _join_once_deleted(descriptions, groups, request, caller)
    reply = groups.join_group(request, caller)
    return then(reply, lambda response: _shape(response, version))


async def _join_once_deleted(
    descriptions: TopologyDescriptions,
    groups: GroupCoordinator,
    request: JoinGroupRequest,
    caller: ClassicCaller,
) -> JoinGroupResponse:
    """Let the member replace a streams group, once the plug-in has deleted its data of the group.

    REBALANCE_IN_PROGRESS, on which clients retry, if that fails.
    """
    if not await descriptions.delete_before_join(request.group_id):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        response = JoinGroupResponse(error_code=error, member_id=request.member_id)
    else:
        response = await answered(groups.join_group(request, caller))
    return _shape(response, caller.api_version)


def _shape(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response in the form of the version: old ones have no null protocol name."""
    if version < NULL_PROTOCOL_NAME_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response


# -- rights


def refuse(
    request: JoinGroupRequest, error: ErrorCode, version: int, message: str
) -> JoinGroupResponse:
    """Return the response with `error`; old versions have no null protocol name."""
    name = None if version >= NULL_PROTOCOL_NAME_SINCE else ""
    return JoinGroupResponse(error_code=error, protocol_name=name)
