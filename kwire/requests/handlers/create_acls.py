"""CreateAcls (key 30): v1-3.

Behaviour
- Each entry is created or refused by itself.  An entry that exists already is no error.  An invalid
  one gives INVALID_REQUEST with Kafka's message.  The entries are in force on this broker when the
  response is sent.
- Without an authorizer: SECURITY_DISABLED for each ACL, valid or not.
- An ACL with a field of value UNKNOWN (0) closes the connection.

- A host with a slash is a range of addresses (KIP-1276), from metadata.version 32 on.

Version notes: v1 has the pattern type (KIP-290), v2 is flexible, v3 knows the resource type USER.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.features import METADATA_VERSION
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.acls import NO_AUTHORIZER, AclAddition, require_known
from kwire.security.authority import Authority

log = logging.getLogger("kwire.acls")

ROUTE = Route(
    ApiKey.CREATE_ACLS, 1, 3, Right(AclOperation.ALTER, ResourceType.CLUSTER), by_controller=True
)


def handle(
    broker: Broker, request: CreateAclsRequest, context: Context
) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    """Create each ACL, and return one result per ACL.

    Raises CloseConnection if an ACL has a field of value UNKNOWN.
    """
    for acl in request.creations:
        require_known(
            "CreateAcls",
            acl.resource_type,
            acl.resource_pattern_type,
            acl.operation,
            acl.permission_type,
        )
    if broker.authorizer is None:
        disabled = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return CreateAclsResponse(results=[disabled for _ in request.creations])
    return _create(broker, broker.authorizer, request.creations)


async def _create(
    broker: Broker, authorizer: Authority, creations: Sequence[AclCreation]
) -> CreateAclsResponse:
    """Store the ACLs that the authorizer accepts, and return one result per ACL.

    Entries of one resource pattern are one addition.
    """
    wanted: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
    refusals: list[Refusal | None] = []
    metadata_version = broker.image.features.level(METADATA_VERSION)
    for acl in creations:
        pattern, entry = _pattern_and_entry(acl)
        try:
            authorizer.check_new(pattern, entry, metadata_version)
        except Refusal as refusal:
            refusals.append(refusal)
        else:
            refusals.append(None)
            wanted.setdefault(pattern, {})[entry] = None
    additions = [AclAddition(pattern, (*entries,)) for pattern, entries in wanted.items()]
    failed = await commit_for_client(broker.membership, additions, log, "Cannot create ACLs")
    return CreateAclsResponse(results=[_result(refusal or failed) for refusal in refusals])


def _pattern_and_entry(acl: AclCreation) -> tuple[ResourcePattern, AccessControlEntry]:
    """Return the requested ACL as the authorizer's types."""
    return (
        ResourcePattern(acl.resource_type, acl.resource_pattern_type, acl.resource_name),
        AccessControlEntry(acl.principal, acl.host, acl.operation, acl.permission_type),
    )


def _result(refusal: Refusal | None) -> AclCreationResult:
    """Return the result of one ACL: no error, or the refusal."""
    if refusal is None:
        return AclCreationResult(ErrorCode.NONE, "")
    return AclCreationResult(refusal.error, refusal.message)


# -- rights


def refuse(
    request: CreateAclsRequest, error: ErrorCode, version: int, message: str
) -> CreateAclsResponse:
    """Return the response that refuses every ACL with `error`."""
    return CreateAclsResponse(
        results=[AclCreationResult(error, message) for _ in request.creations]
    )
