"""Access control lists as the metadata keeps them: resource patterns and their entries.

The numbers are those of Kafka's requests and records.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""As a resource name, every resource of its type; as a host, every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
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


class AclPermissionType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """Resources of one type: the one of this name (LITERAL), or those with this prefix."""

    resource_type: int
    pattern_type: int
    name: str


class AccessControlEntry(NamedTuple):
    """A rule for one principal (`type:name`), host (an IP address, or a range) and operation."""

    principal: str
    host: str
    operation: int
    permission: int


NO_ENTRIES: Final[frozenset[AccessControlEntry]] = frozenset()

Acls = Mapping[ResourcePattern, frozenset[AccessControlEntry]]
"""The entries of each resource pattern."""
