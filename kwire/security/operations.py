"""The authorized operations that a client is told of, where it asks for them (KIP-430).

A bit an operation, numbered as Kafka's AclOperation.  Without an authorizer everyone may do all
that the kind of resource knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode

NOT_ASKED = -(2**31)
"""What the field holds when the client did not ask."""


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)

GROUP_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)

CLUSTER_OPERATIONS = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)


def tell_group_operations(groups: Iterable[Any], *, asked: bool) -> None:
    """Tell of groups that were found and described, of whatever kind, what may be done to them."""
    for group in groups if asked else ():
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
