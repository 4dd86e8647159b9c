"""DeleteGroups (key 42): v0-2.

Behaviour
- A group without members is forgotten with all its offsets.  Each group has its own answer:
  NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.

Version notes: flexible from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kwire.context import Context
from kwire.coordinators.promise import Promise


def handle(
    broker: Broker, request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    replies = {
        group_id: broker.groups.delete_group(group_id)
        for group_id in dict.fromkeys(request.groups_names)
    }
    if any(isinstance(reply, Promise) for reply in replies.values()):
        return _wait(replies)
    return _response(replies)


async def _wait(replies: dict[str, ErrorCode | Promise[ErrorCode]]) -> DeleteGroupsResponse:
    return _response(
        {
            group_id: await reply.wait() if isinstance(reply, Promise) else reply
            for group_id, reply in replies.items()
        }
    )


def _response(errors: dict[str, ErrorCode | Promise[ErrorCode]]) -> DeleteGroupsResponse:
    results = []
    for group_id, error in errors.items():
        assert isinstance(error, ErrorCode)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=results)
