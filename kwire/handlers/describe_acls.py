"""DescribeAcls (key 29): v1-3.

Behaviour
- Without an authorizer: SECURITY_DISABLED, whatever is asked for.
- A filter that holds UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.context import Context
from kwire.security.acls import NO_AUTHORIZER_ON_BROKER, require_known


def handle(broker: Broker, request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    require_known(
        "DescribeAcls",
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_ON_BROKER
    )
