"""Cases of CreateAcls on a broker without an authorizer."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.conformance.wire.case import Cases, MakeRequest
from kwire.conformance.wire.cases.build import ALLOW, ANY, LITERAL, READ, TOPIC

case = Cases(ApiKey.CREATE_ACLS)


def access_request(version: int, topic_id: bytes) -> CreateAclsRequest:
    return CreateAclsRequest([AclCreation(4, "other", 3, "User:x", "*", 3, 3)])


def acl(
    resource_type: int = TOPIC,
    name: str = "wire",
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    """Return the creation of a rule; by default alice may read the topic `wire` from any host."""
    return AclCreation(resource_type, name, pattern, principal, host, operation, permission)


def of(*acls: AclCreation) -> MakeRequest:
    return lambda stage: CreateAclsRequest(list(acls))


case.requests(
    {
        "none": of(),
        "one": of(acl()),
        "the same twice": of(acl(), acl()),
        "any": of(acl(ANY, pattern=ANY, operation=ANY, permission=ANY)),
        "codes without a meaning": of(acl(99, "", 99, "", "", 99, -1)),
        "principals that are none": of(acl(principal="alice"), acl(principal="")),
        "an unknown resource type beside a known one": of(acl(), acl(0)),
        "an unknown pattern type": of(acl(pattern=0)),
        "an unknown operation": of(acl(operation=0)),
        "an unknown permission": of(acl(permission=0)),
    }
)
