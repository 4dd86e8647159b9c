"""DeleteGroups (key 42): v0-3.

Behaviour
- Deletes groups without members, with their committed offsets.  Each group has its own error:
  NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
- The state of a share group is first deleted at the share coordinator, and the description of a
  streams group's topology by the plug-in of the broker.  If that fails, the group stays.

Version notes: flexible from v2; error messages from v3, and GROUP_DELETION_FAILED if the plug-in
fails (KIP-1331), UNKNOWN_SERVER_ERROR before.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
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

DELETION_FAILED_SINCE: Final = 3

ROUTE = Route(ApiKey.DELETE_GROUPS, 0, 3, Right(AclOperation.DELETE, ResourceType.GROUP))


def handle(
    broker: Broker, request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Delete each group once, and return one error code per group."""
    group_ids = list(dict.fromkeys(request.groups_names))
    groups = broker.coordinators.groups
    descriptions = groups.descriptions
    if any(
        groups.share_state_topics(group_id)
        or (descriptions is not None and descriptions.has_any(group_id))
        for group_id in group_ids
    ):
        return _delete_with_data(broker, group_ids, context.api_version)
    replies = [groups.delete_group(group_id) for group_id in group_ids]
    return then_all(
        replies,
        lambda errors: DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id, error)
                for group_id, error in zip(group_ids, errors, strict=True)
            ]
        ),
    )


async def _delete_with_data(
    broker: Broker, group_ids: list[str], version: int
) -> DeleteGroupsResponse:
    """Delete groups of which other places have data: first the data, then the group itself.

    If the data cannot be deleted, the group stays, so that a retry can finish.
    """
    results = []
    for group_id in group_ids:
        refusal = await _delete_data(broker, group_id)
        if refusal is None:
            error = await answered(broker.coordinators.groups.delete_group(group_id))
            results.append(DeletableGroupResult(group_id, error))
            continue
        error = refusal.error
        if error is ErrorCode.GROUP_DELETION_FAILED and version < DELETION_FAILED_SINCE:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        results.append(DeletableGroupResult(group_id, error, refusal.message))
    return DeleteGroupsResponse(results=results)


async def _delete_data(broker: Broker, group_id: str) -> Refusal | None:
    """Delete the share coordinator's state and the plug-in's data of a group; the refusal if that
    fails.
    """
    from kwire.requests.handlers.share_groups.group_state import forget

    topics = broker.coordinators.groups.share_state_topics(group_id)
    if topics is not None:
        error = await forget(broker, group_id, topics)
        if error is not ErrorCode.NONE:
            return Refusal(error)
    descriptions = broker.coordinators.groups.descriptions
    return None if descriptions is None else await descriptions.delete(group_id)


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
