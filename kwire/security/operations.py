"""The authorized operations in responses, for clients that request them (KIP-430).

Bit N stands for the operation with number N in Kafka's AclOperation.  Without an authorizer every
client may do every operation that the type of resource has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode

NOT_ASKED = -(2**31)
"""The value of the field if the client did not request it."""


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
    """Set the authorized operations of described groups without an error, if `asked`."""
    for group in groups if asked else ():
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
