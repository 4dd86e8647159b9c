"""What is asked of access control lists, and what is said of it: with the words of Kafka 4.3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kwire.cluster.metadata.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import ChangeAcls
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.requests.context import InvalidFrame

UNKNOWN: Final = 0
"""The code in every one of Kafka's enums of ACLs that stands for what its reader does not know."""

NO_AUTHORIZER_ON_BROKER: Final = "No Authorizer is configured on the broker"
NO_AUTHORIZER: Final = "No Authorizer is configured."
"""Kafka's words differ: DescribeAcls is answered by a broker, the other two by its controller."""


def require_known(request: str, *codes: int) -> None:
    """Refuse what the client itself calls unknown: Kafka does not read such a request.

    Codes that Kafka has no meaning for are not refused here.
    """
    if UNKNOWN in codes:
        raise InvalidFrame(f"{request} contains UNKNOWN elements")


class AclFilter(NamedTuple):
    """Which entries are meant: ANY and None stand for all."""

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matching(
        self, image: ClusterImage
    ) -> Iterator[tuple[ResourcePattern, list[AccessControlEntry]]]:
        """The entries that are meant, in the order of their resources."""
        for pattern in sorted(filter(self._is_of, image.acls)):
            entries = sorted(filter(self._means, image.acls[pattern]))
            if entries:
                yield pattern, entries

    def _is_of(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type == PatternType.MATCH:
            return self.name is None or _covers(pattern, self.name)
        if self.pattern_type not in (PatternType.ANY, pattern.pattern_type):
            return False
        return self.name in (None, pattern.name)

    def _means(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermissionType.ANY, entry.permission)
        )


def _covers(pattern: ResourcePattern, name: str) -> bool:
    """Whether a resource of that name is one of the pattern's."""
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def check_new(pattern: ResourcePattern, entry: AccessControlEntry) -> None:
    """Raises Refusal for an entry that cannot be."""
    sentence = _mistake(pattern, entry)
    if sentence is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, sentence)


def _mistake(pattern: ResourcePattern, entry: AccessControlEntry) -> str | None:
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    if pattern.resource_type not in _NAMED_TYPES:
        return f"Invalid resourceType {name_of(ResourceType, pattern.resource_type)}"
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {name_of(PatternType, pattern.pattern_type)}"
    if entry.operation not in _NAMED_OPERATIONS:
        return f"Invalid operation {name_of(AclOperation, entry.operation)}"
    if entry.permission not in (AclPermissionType.ALLOW, AclPermissionType.DENY):
        return f"Invalid permissionType {name_of(AclPermissionType, entry.permission)}"
    if ":" not in entry.principal:
        return (
            f"Could not parse principal from `{entry.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


def check_for_zookeeper(pattern: ResourcePattern, entry: AccessControlEntry) -> None:
    """The same where lists are kept in ZooKeeper: as Apache Kafka 3.9.2 has it, which knows no
    operation of a later version and would not start beside one, and names that can be in a path."""
    check_new(pattern, entry)
    if entry.operation > AclOperation.DESCRIBE_TOKENS or _NO_PATH.search(pattern.name):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Failed to create ACL")


_NO_PATH: Final = re.compile(r"/|\A\.{1,2}\Z|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""By ZooKeeper's PathUtils."""
_NAMED_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_NAMED_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.UNKNOWN, AclOperation.ANY}

_Codes = type[ResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType]


def name_of(codes: _Codes, code: int) -> str:
    """What Kafka calls it; a code that it does not know is UNKNOWN to it."""
    try:
        return codes(code).name
    except ValueError:
        return "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Addition:
    """A decision (kwire.cluster.metadata.changes): entries, each named once, that are to be
    there."""

    pattern: ResourcePattern
    entries: tuple[AccessControlEntry, ...]

    def __call__(self, image: ClusterImage) -> ChangeAcls | None:
        there = image.acls_on(self.pattern)
        coming = tuple(each for each in self.entries if each not in there)
        return ChangeAcls(self.pattern, coming) if coming else None


@dataclass(frozen=True, slots=True)
class Removal:
    """A decision: those of the entries that are there still are to go."""

    pattern: ResourcePattern
    entries: tuple[AccessControlEntry, ...]

    def __call__(self, image: ClusterImage) -> ChangeAcls | None:
        there = image.acls_on(self.pattern)
        going = tuple(each for each in self.entries if each in there)
        return ChangeAcls(self.pattern, (), going) if going else None
