"""Access control lists (KIP-140, KIP-290): describe, create and delete entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import check
from kwire.codecs.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.codecs.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.codecs.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class Resource(IntEnum):
    """The type of a resource.  The values are those of the protocol; ANY is only for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How a name is matched: literally, or as a prefix.

    ANY and MATCH are only for filters.  MATCH means all entries that apply to a resource of that
    name.
    """

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What an entry allows or denies.  The values are those of the protocol; ANY is for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an entry allows or denies.  ANY is only for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """An entry of an access control list.  `principal` is `User:name`; host `*` is every host."""

    resource: Resource
    pattern: Pattern
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Selects entries.  ANY and None select all."""

    resource: Resource = Resource.ANY
    pattern: Pattern = Pattern.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


def only(acl: Acl) -> AclFilter:
    """The filter that selects this entry only."""
    return AclFilter(*acl)


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The selected entries, sorted by resource.  Raises BrokerRefused."""
    request = DescribeAclsRequest(
        wanted.resource,
        wanted.name,
        wanted.pattern,
        wanted.principal,
        wanted.host,
        wanted.operation,
        wanted.permission,
    )

    def ask() -> DescribeAclsResponse:
        reply: DescribeAclsResponse = cluster.any().call(request)
        check(reply.error_code, "describe access control lists", reply.error_message)
        return reply

    return sorted(
        _acl(resource, entry)
        for resource in cluster.retrying(ask).resources
        for entry in resource.acls
    )


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Create these entries unless they exist.  Raises BrokerRefused."""
    creations = [AclCreation(acl.resource, acl.name, acl.pattern, *acl[3:]) for acl in acls]

    def ask() -> None:
        reply: CreateAclsResponse = cluster.any().call(CreateAclsRequest(creations))
        for result in reply.results:
            check(result.error_code, "create access control lists", result.error_message)

    cluster.retrying(ask)


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the selected entries, and return them.  Raises BrokerRefused."""
    deletions = [
        DeleteAclsFilter(acl_filter.resource, acl_filter.name, acl_filter.pattern, *acl_filter[3:])
        for acl_filter in filters
    ]

    def ask() -> DeleteAclsResponse:
        """Sends the request once.  Raises BrokerRefused for an error of a filter or of an entry
        that it matches."""
        reply: DeleteAclsResponse = cluster.any().call(DeleteAclsRequest(deletions))
        for result in reply.filter_results:
            check(result.error_code, "delete access control lists", result.error_message)
            for acl in result.matching_acls:
                check(acl.error_code, "delete an access control entry", acl.error_message)
        return reply

    return sorted(
        _acl(acl, acl)
        for result in cluster.retrying(ask).filter_results
        for acl in result.matching_acls
    )


def _acl(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl,
    entry: AclDescription | DeleteAclsMatchingAcl,
) -> Acl:
    """Converts an entry of a response, with its resource, to an Acl."""
    return Acl(
        Resource(resource.resource_type),
        Pattern(resource.pattern_type),
        resource.resource_name,
        entry.principal,
        entry.host,
        Operation(entry.operation),
        Permission(entry.permission_type),
    )
