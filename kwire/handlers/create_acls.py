"""CreateAcls (key 30): v1-3.

Behaviour
- Without an authorizer: SECURITY_DISABLED for each ACL, sound or not.
- An ACL that holds UNKNOWN (0) closes the connection.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.context import Context
from kwire.security.acls import NO_AUTHORIZER, require_known


def handle(broker: Broker, request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    for acl in request.creations:
        require_known(
            "CreateAcls",
            acl.resource_type,
            acl.resource_pattern_type,
            acl.operation,
            acl.permission_type,
        )
    return CreateAclsResponse(
        results=[
            AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.creations
        ]
    )
