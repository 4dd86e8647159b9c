"""DeleteAcls (key 31): v1-3.

Behaviour
- Without an authorizer: SECURITY_DISABLED for each filter, sound or not.
- A filter that holds UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.context import Context
from kwire.security.acls import NO_AUTHORIZER, require_known


def handle(broker: Broker, request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    for wanted in request.filters:
        require_known(
            "DeleteAcls",
            wanted.resource_type_filter,
            wanted.pattern_type_filter,
            wanted.operation,
            wanted.permission_type,
        )
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
            for _ in request.filters
        ]
    )
