"""Who may do what, by access control lists: Apache Kafka's StandardAuthorizer, without I/O.

An action is one operation on one resource.  A superuser may do all.  Else the entries count that
are on the resource's name, on a prefix of it, or on all resources of its type:

- one that denies the operation, for the principal (or all) from its host (or all): denied;
- else one that allows the operation, or another that implies it (`IMPLIED_BY`): allowed;
- else denied, unless there are no entries on the resource at all, whoever they are for, and
  `allow.everyone.if.no.acl.found` says so.

The prefixes of a name that have entries are looked up one length after the other, of the lengths
that there are: nothing grows with the number of lists.  tests/security/test_authorizer.py asks
Kafka's own class the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kwire.cluster.metadata.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    Acls,
    PatternType,
    ResourcePattern,
    ResourceType,
)

IMPLIED_BY: Final[Mapping[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
}
"""Operation to those that whoever is allowed may do it, too.  To deny one denies no other."""

REMEMBERED_MAX = 10_000
"""Decisions that are kept until the lists change; then they are forgotten together."""

_HARDCODED = "hardcode"
"""The name that Kafka asks about to find out whether anything at all may be done (KIP-679)."""


class Ruling(NamedTuple):
    """`rule` is what the audit log names: the entry, or what decided without one."""

    allowed: bool
    rule: str


SUPER_USER: Final = Ruling(True, "SuperUser")
DENIED_BY_DEFAULT: Final = Ruling(False, "DefaultDeny")
ALLOWED_BY_DEFAULT: Final = Ruling(True, "DefaultAllow")


class AclAuthorizer:
    """The rules; `follow` tells it of each change of the lists."""

    def __init__(
        self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl_found: bool = False
    ) -> None:
        self.super_users = frozenset(super_users)
        self._default = ALLOWED_BY_DEFAULT if allow_everyone_if_no_acl_found else DENIED_BY_DEFAULT
        self._acls: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        self._remembered: dict[tuple[str, str, int, int, str], Ruling] = {}

    def follow(self, acls: Acls) -> None:
        """All entries that there are now on these resources, none where there are none."""
        for pattern, entries in acls.items():
            known = pattern in self._acls
            if entries:
                self._acls[pattern] = entries
            else:
                self._acls.pop(pattern, None)
            if pattern.pattern_type == PatternType.PREFIXED and known != bool(entries):
                lengths = self._prefix_lengths.setdefault(pattern.resource_type, Counter())
                lengths[len(pattern.name)] += 1 if entries else -1
                lengths += Counter()  # without those that are none any more
                self._prefix_lengths[pattern.resource_type] = lengths
        self._remembered.clear()

    def ruling(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Ruling:
        """May `principal` from `host` do `operation` on the resource?"""
        key = principal, host, operation, resource_type, name
        known = self._remembered.get(key)
        if known is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[key] = self._decide(*key)
        return known

    def _decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Ruling:
        if principal in self.super_users:
            return SUPER_USER
        implied_by = IMPLIED_BY.get(operation, frozenset[int]())
        found_any = False
        allowing: Ruling | None = None
        for pattern in self._matching(resource_type, name):
            for entry in self._acls[pattern]:
                found_any = True
                if not _concerns(entry, principal, host):
                    continue
                exactly = entry.operation in (operation, AclOperation.ALL)
                if entry.permission == AclPermissionType.DENY:
                    if exactly:
                        return Ruling(False, rule_text(pattern, entry))
                elif allowing is None and (exactly or entry.operation in implied_by):
                    allowing = Ruling(True, rule_text(pattern, entry))
        if allowing is not None:
            return allowing
        return DENIED_BY_DEFAULT if found_any else self._default

    def _matching(self, resource_type: int, name: str) -> Iterator[ResourcePattern]:
        """The patterns with entries that the resource is of; the longest names come first."""
        acls = self._acls
        exact = ResourcePattern(resource_type, PatternType.LITERAL, name)
        if exact in acls:
            yield exact
        for length in sorted(self._prefix_lengths.get(resource_type, ()), reverse=True):
            if length <= len(name):
                prefixed = ResourcePattern(resource_type, PatternType.PREFIXED, name[:length])
                if prefixed in acls:
                    yield prefixed
        everything = ResourcePattern(resource_type, PatternType.LITERAL, WILDCARD)
        if name != WILDCARD and everything in acls:
            yield everything

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of that type on which the operation is allowed.

        That is what InitProducerId asks of topics (KIP-679).  Here no operation implies another:
        Kafka looks at what is allowed in so many words.
        """
        if self.ruling(principal, host, operation, resource_type, _HARDCODED).allowed:
            return True
        allowed, denied = self._named(principal, host, operation, resource_type)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            (kind, name) == (PatternType.LITERAL, WILDCARD) or not _is_overruled(kind, name, denied)
            for kind, name in allowed
        )

    def _named(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
        """The patterns on which it is allowed, and those on which it is denied."""
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for pattern, entries in self._acls.items():
            if pattern.resource_type != resource_type:
                continue
            for entry in entries:
                if _concerns(entry, principal, host) and entry.operation in (
                    operation,
                    AclOperation.ALL,
                ):
                    side = denied if entry.permission == AclPermissionType.DENY else allowed
                    side.add((pattern.pattern_type, pattern.name))
        return allowed, denied


def _concerns(entry: AccessControlEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, WILDCARD_PRINCIPAL) and entry.host in (host, WILDCARD)


def _is_overruled(kind: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether what is allowed by this name is denied by the same name or a shorter one."""
    if kind == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def rule_text(pattern: ResourcePattern, entry: AccessControlEntry) -> str:
    """An entry as Kafka's audit log names it."""
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={ResourceType(pattern.resource_type).name}, "
        f"resourceName={pattern.name}, patternType={PatternType(pattern.pattern_type).name}, "
        f"principal={entry.principal}, host={entry.host}, "
        f"operation={AclOperation(entry.operation).name}, "
        f"permissionType={AclPermissionType(entry.permission).name}))"
    )
