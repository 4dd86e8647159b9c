"""Access control lists (KIP-140, KIP-290), asked for and changed."""

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
"""The only resource of the kind CLUSTER."""


class Resource(IntEnum):
    """What access is to, by Kafka's numbers; ANY is for those who ask alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How a name is meant: as it is, or as what names begin with.

    Those who ask may mean ANY, or MATCH: whatever decides on a resource of that name.
    """

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What may be done; ANY is for those who ask alone."""

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
    """Whether it may be; ANY is for those who ask alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry of an access control list.  `principal` is `User:name`, `*` is every host."""

    resource: Resource
    pattern: Pattern
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Which entries are meant; ANY and None mean all."""

    resource: Resource = Resource.ANY
    pattern: Pattern = Pattern.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


def only(acl: Acl) -> AclFilter:
    """What means this entry and no other."""
    return AclFilter(*acl)


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The entries that are meant, sorted by what they are on.  Raises BrokerRefused."""
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
        _told(resource, entry)
        for resource in cluster.retrying(ask).resources
        for entry in resource.acls
    )


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Have these entries be there, whether they were or not.  Raises BrokerRefused."""
    wanted = [AclCreation(acl.resource, acl.name, acl.pattern, *acl[3:]) for acl in acls]

    def ask() -> None:
        reply: CreateAclsResponse = cluster.any().call(CreateAclsRequest(wanted))
        for each in reply.results:
            check(each.error_code, "create access control lists", each.error_message)

    cluster.retrying(ask)


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """Remove the entries that are meant; gives them.  Raises BrokerRefused."""
    wanted = [
        DeleteAclsFilter(each.resource, each.name, each.pattern, *each[3:]) for each in filters
    ]

    def ask() -> DeleteAclsResponse:
        reply: DeleteAclsResponse = cluster.any().call(DeleteAclsRequest(wanted))
        for result in reply.filter_results:
            check(result.error_code, "delete access control lists", result.error_message)
            for each in result.matching_acls:
                check(each.error_code, "delete an access control entry", each.error_message)
        return reply

    return sorted(
        _told(each, each)
        for result in cluster.retrying(ask).filter_results
        for each in result.matching_acls
    )


def _told(
    on: DescribeAclsResource | DeleteAclsMatchingAcl, entry: AclDescription | DeleteAclsMatchingAcl
) -> Acl:
    return Acl(
        Resource(on.resource_type),
        Pattern(on.pattern_type),
        on.resource_name,
        entry.principal,
        entry.host,
        Operation(entry.operation),
        Permission(entry.permission_type),
    )
