"""DescribeAcls (key 29): v1-3.

Behaviour
- The response has the entries that the filter matches, by resource.
- Without an authorizer: SECURITY_DISABLED, whatever the filter.
- A filter with a field of value UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.acls import NO_AUTHORIZER_ON_BROKER, AclEntryFilter, require_known

ROUTE = Route(ApiKey.DESCRIBE_ACLS, 1, 3, Right(AclOperation.DESCRIBE, ResourceType.CLUSTER))


def handle(broker: Broker, request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """Return the ACL entries that the filter matches, grouped by resource pattern.

    Raises CloseConnection if the filter has a field of value UNKNOWN.
    """
    require_known(
        "DescribeAcls",
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if broker.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_ON_BROKER
        )
    acl_filter = AclEntryFilter(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                pattern.resource_type,
                pattern.name,
                pattern.pattern_type,
                [AclDescription(*entry) for entry in entries],
            )
            for pattern, entries in acl_filter.matching(broker.image)
        ],
    )


# -- rights


def refuse(
    request: DescribeAclsRequest, error: ErrorCode, version: int, message: str
) -> DescribeAclsResponse:
    """Return the response that refuses the request with `error`."""
    return DescribeAclsResponse(error_code=error, error_message=message)
