"""DeleteAcls (key 31): v1-3.

Behaviour
- Each filter deletes the entries that it matches, and its result lists them.  It does not list
  entries that a filter before it has deleted.
- Without an authorizer: SECURITY_DISABLED for each filter, valid or not.
- A filter with a field of value UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.acls import NO_AUTHORIZER, AclEntryFilter, AclRemoval, require_known

log = logging.getLogger("kwire.acls")

ROUTE = Route(
    ApiKey.DELETE_ACLS, 1, 3, Right(AclOperation.ALTER, ResourceType.CLUSTER), by_controller=True
)


def handle(
    broker: Broker, request: DeleteAclsRequest, context: Context
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    """Delete the ACL entries that each filter matches, and return one result per filter.

    Raises CloseConnection if a filter has a field of value UNKNOWN.
    """
    for acl_filter in request.filters:
        require_known(
            "DeleteAcls",
            acl_filter.resource_type_filter,
            acl_filter.pattern_type_filter,
            acl_filter.operation,
            acl_filter.permission_type,
        )
    if broker.authorizer is None:
        disabled = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[disabled for _ in request.filters])
    return _delete(broker, [_acl_filter(acl_filter) for acl_filter in request.filters])


def _acl_filter(requested: DeleteAclsFilter) -> AclEntryFilter:
    """Return the requested filter as the authorizer's type."""
    return AclEntryFilter(
        requested.resource_type_filter,
        requested.pattern_type_filter,
        requested.resource_name_filter,
        requested.principal_filter,
        requested.host_filter,
        requested.operation,
        requested.permission_type,
    )


async def _delete(broker: Broker, filters: list[AclEntryFilter]) -> DeleteAclsResponse:
    """Delete the matches of each filter in turn, and return one result per filter.

    Each filter has its own commit, so a later filter does not match entries already deleted.
    """
    results = []
    for acl_filter in filters:
        removals = [
            AclRemoval(pattern, (*entries,))
            for pattern, entries in acl_filter.matching(broker.image)
        ]
        failed = await commit_for_client(broker.membership, removals, log, "Cannot delete ACLs")
        results.append(_result(removals, failed))
    return DeleteAclsResponse(filter_results=results)


def _result(removals: list[AclRemoval], failed: Refusal | None) -> DeleteAclsFilterResult:
    """Return the result of one filter: the entries that it deleted, or why none were."""
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


# -- rights


def refuse(
    request: DeleteAclsRequest, error: ErrorCode, version: int, message: str
) -> DeleteAclsResponse:
    """Return the response that refuses every filter with `error`."""
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters]
    )
