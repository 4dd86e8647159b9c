"""Cases of DeleteAcls on a broker without an authorizer."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.conformance.wire.case import Cases, MakeRequest
from kwire.conformance.wire.cases.build import ANY, LITERAL, TOPIC

case = Cases(ApiKey.DELETE_ACLS)


def access_request(version: int, topic_id: bytes) -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsFilter(2, "no-such", 3, None, None, 1, 1)])


def filter_of(
    resource_type: int = TOPIC,
    name: str | None = "wire",
    pattern: int = LITERAL,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> DeleteAclsFilter:
    """Return a filter of rules; by default any rule of the topic `wire` matches."""
    return DeleteAclsFilter(resource_type, name, pattern, principal, host, operation, permission)


def of(*acls: DeleteAclsFilter) -> MakeRequest:
    return lambda stage: DeleteAclsRequest(list(acls))


case.requests(
    {
        "none": of(),
        "those of a topic": of(filter_of()),
        "the same twice": of(filter_of(), filter_of()),
        "all there are": of(filter_of(ANY, None, ANY)),
        "codes without a meaning": of(filter_of(99, "", 99, "", "", 99, -1)),
        "an unknown resource type beside a known one": of(filter_of(), filter_of(0)),
        "an unknown pattern type": of(filter_of(pattern=0)),
        "an unknown operation": of(filter_of(operation=0)),
        "an unknown permission": of(filter_of(permission=0)),
    }
)
