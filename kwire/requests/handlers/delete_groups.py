"""DeleteGroups (key 42): v0-2.

Behaviour
- Deletes groups without members, with their committed offsets.  Each group has its own error:
  NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
- The state of a share group is first deleted at the share coordinator.

Version notes: flexible from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kwire.coordinators.runtime.promise import answered, then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.DELETE_GROUPS, 0, 2, Right(AclOperation.DELETE, ResourceType.GROUP))


def handle(
    broker: Broker, request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Delete each group once, and return one error code per group."""
    group_ids = list(dict.fromkeys(request.groups_names))
    if any(broker.coordinators.groups.share_state_topics(group_id) for group_id in group_ids):
        return _delete_with_states(broker, group_ids)
    replies = [broker.coordinators.groups.delete_group(group_id) for group_id in group_ids]
    return then_all(replies, lambda errors: _response(group_ids, errors))


async def _delete_with_states(broker: Broker, group_ids: list[str]) -> DeleteGroupsResponse:
    """Delete share groups: first the share coordinator's state, then the group itself.

    If the state cannot be deleted, the group stays, so that a retry can finish.
    """
    from kwire.requests.handlers.share_groups.group_state import forget

    errors = []
    for group_id in group_ids:
        topics = broker.coordinators.groups.share_state_topics(group_id)
        error = ErrorCode.NONE if topics is None else await forget(broker, group_id, topics)
        if error is ErrorCode.NONE:
            error = await answered(broker.coordinators.groups.delete_group(group_id))
        errors.append(error)
    return _response(group_ids, errors)


def _response(group_ids: list[str], errors: list[ErrorCode]) -> DeleteGroupsResponse:
    """Return the response with the error code of each group."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in zip(group_ids, errors, strict=True)
        ]
    )


# -- rights


def guard(access: Access, request: DeleteGroupsRequest, proceed: Proceed) -> Response:
    """Let the handler delete the groups that the sender may delete; refuse the others."""
    names = list(dict.fromkeys(request.groups_names))
    allowed, denied = access.split(AclOperation.DELETE, ResourceType.GROUP, names, str)
    request.groups_names = allowed

    def merge(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results += [
            DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group_id in denied
        ]
        return response

    return reshaped(proceed(request), merge)
