"""DeleteAcls (key 31): v1-3.

Behaviour
- Each filter by itself: the entries that it means go, and are told.  A filter that means entries
  which one before it has removed does not tell them again.
- Without an authorizer: SECURITY_DISABLED for each filter, sound or not.
- A filter that holds UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.requests.context import Context
from kwire.security.acls import NO_AUTHORIZER, AclFilter, Removal, require_known

log = logging.getLogger("kwire.acls")


def handle(
    broker: Broker, request: DeleteAclsRequest, context: Context
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    for wanted in request.filters:
        require_known(
            "DeleteAcls",
            wanted.resource_type_filter,
            wanted.pattern_type_filter,
            wanted.operation,
            wanted.permission_type,
        )
    if broker.authorizer is None:
        disabled = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[disabled for _ in request.filters])
    return _delete(broker, [_filter(each) for each in request.filters])


def _filter(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.resource_name_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


async def _delete(broker: Broker, filters: list[AclFilter]) -> DeleteAclsResponse:
    results = []
    for each in filters:
        removals = [Removal(pattern, (*found,)) for pattern, found in each.matching(broker.image)]
        failed = await commit_for_client(
            broker.membership, removals, log, "access control lists are kept"
        )
        results.append(_result(removals, failed))
    return DeleteAclsResponse(filter_results=results)


def _result(removals: list[Removal], failed: Refusal | None) -> DeleteAclsFilterResult:
    if failed is not None:
        return DeleteAclsFilterResult(failed.error, failed.message)
    return DeleteAclsFilterResult(
        ErrorCode.NONE,
        None,
        [
            DeleteAclsMatchingAcl(
                ErrorCode.NONE,
                None,
                removal.pattern.resource_type,
                removal.pattern.name,
                removal.pattern.pattern_type,
                *entry,
            )
            for removal in removals
            for entry in removal.entries
        ],
    )
