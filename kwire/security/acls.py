"""Filters, checks and changes of access control lists, with the error messages of Kafka 4.4.0."""

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
from kwire.cluster.metadata.features import CIDR_HOSTS
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.requests.context import InvalidFrame
from kwire.security.host_ranges import InvalidRange, is_range, parse_range

UNKNOWN: Final = 0
"""The code for an unknown value in each of Kafka's ACL enums."""

NO_AUTHORIZER_ON_BROKER: Final = "No Authorizer is configured on the broker"
NO_AUTHORIZER: Final = "No Authorizer is configured."
"""A broker answers DescribeAcls and the controller the other two requests: their texts differ."""


def require_known(request: str, *codes: int) -> None:
    """Raise InvalidFrame if a code is UNKNOWN: Kafka cannot read such a request.

    Codes that are in none of Kafka's enums pass.
    """
    if UNKNOWN in codes:
        raise InvalidFrame(f"{request} contains UNKNOWN elements")


class AclEntryFilter(NamedTuple):
    """A filter of ACL entries; ANY and None match everything."""

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
        """Yield the matching entries by resource pattern, both sorted."""
        for pattern in sorted(filter(self._matches_pattern, image.acls)):
            entries = sorted(filter(self._matches_entry, image.acls[pattern]))
            if entries:
                yield pattern, entries

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Return whether the filter selects the resource pattern.

        The filter type MATCH also finds prefixes and `*` that cover the name.
        """
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type == PatternType.MATCH:
            return self.name is None or _covers(pattern, self.name)
        if self.pattern_type not in (PatternType.ANY, pattern.pattern_type):
            return False
        return self.name in (None, pattern.name)

    def _matches_entry(self, entry: AccessControlEntry) -> bool:
        """Return whether the filter selects the entry; None and ANY select all."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermissionType.ANY, entry.permission)
        )


def _covers(pattern: ResourcePattern, name: str) -> bool:
    """Whether `pattern` applies to a resource called `name`."""
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def check_new(pattern: ResourcePattern, entry: AccessControlEntry, metadata_version: int) -> None:
    """Raise Refusal if the new entry is invalid, or not allowed at this level of metadata.version.

    Brokers of earlier versions compare a range of addresses as text.
    """
    _check(pattern, entry)
    if not entry.host:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
    if not is_range(entry.host):
        return
    if metadata_version < CIDR_HOSTS:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    try:
        parse_range(entry.host)
    except InvalidRange as error:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{entry.host}': {error}"
        ) from error


def _check(pattern: ResourcePattern, entry: AccessControlEntry) -> None:
    """Raise Refusal if the new entry is invalid, whatever its host is."""
    problem = _problem(pattern, entry)
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _problem(pattern: ResourcePattern, entry: AccessControlEntry) -> str | None:
    """Return Kafka's message if the ACL is invalid, else None."""
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


def check_for_zookeeper(
    pattern: ResourcePattern, entry: AccessControlEntry, metadata_version: int = 0
) -> None:
    """`check_new` for lists in ZooKeeper, which Apache Kafka 3.9.2 must be able to read.

    It takes any text for a host, at any `metadata_version`.  It does not start if an entry has an
    operation of a later version, and a resource name must be valid in a path of ZooKeeper.
    """
    _check(pattern, entry)
    if entry.operation > AclOperation.DESCRIBE_TOKENS or _NO_PATH.search(pattern.name):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Failed to create ACL")


_NO_PATH: Final = re.compile(r"/|\A\.{1,2}\Z|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""What a path of ZooKeeper must not contain, as in its PathUtils."""
_NAMED_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_NAMED_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.UNKNOWN, AclOperation.ANY}

_Codes = type[ResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType]


def name_of(codes: _Codes, code: int) -> str:
    """Kafka's name of a code; UNKNOWN for a code that it does not have."""
    try:
        return codes(code).name
    except ValueError:
        return "UNKNOWN"


@dataclass(frozen=True, slots=True)
class AclAddition:
    """A decision (kwire.cluster.metadata.changes) to add entries that do not exist yet.

    `entries` has each entry once.
    """

    pattern: ResourcePattern
    entries: tuple[AccessControlEntry, ...]

    def __call__(self, image: ClusterImage) -> ChangeAcls | None:
        existing = image.acls_on(self.pattern)
        added = tuple(entry for entry in self.entries if entry not in existing)
        return ChangeAcls(self.pattern, added) if added else None


@dataclass(frozen=True, slots=True)
class AclRemoval:
    """A decision to remove those of the entries that still exist."""

    pattern: ResourcePattern
    entries: tuple[AccessControlEntry, ...]

    def __call__(self, image: ClusterImage) -> ChangeAcls | None:
        existing = image.acls_on(self.pattern)
        removed = tuple(entry for entry in self.entries if entry in existing)
        return ChangeAcls(self.pattern, (), removed) if removed else None
