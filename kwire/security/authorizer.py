"""The rules of access control lists, as in Apache Kafka's StandardAuthorizer, without I/O.

An action is one operation on one resource.  A super user may do everything.  For any other
principal those entries count that are on the resource's name, on a prefix of it, or on all
resources of its type.  The first rule that applies decides:

- an entry denies the operation to the principal (or to all) from its host (or from all): denied;
- an entry allows the operation, or another that implies it (`IMPLIED_BY`): allowed;
- there are no entries on the resource at all, for any principal, and
  `allow.everyone.if.no.acl.found` is true: allowed;
- else denied.

The host of an entry can be a range of addresses (KIP-1276, kwire.security.host_ranges).  A range is
parsed when its entry comes, and not for each decision.

To find the prefixes of a name, the authorizer looks up one prefix of each length that occurs, so
the time does not grow with the number of lists.  tests/security/test_authorizer.py compares the
decisions with those of Kafka's own class.
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
from kwire.security.host_ranges import HostRange, holds, range_of

IMPLIED_BY: Final[Mapping[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
}
"""For an operation, the operations that imply it when they are allowed.  A denial implies none."""

REMEMBERED_MAX = 10_000
"""Decisions in the cache, which is emptied when it is full or when the lists change."""

_HARDCODED = "hardcode"
"""The resource name with which Kafka checks the rights on any resource (KIP-679)."""


class Ruling(NamedTuple):
    """A decision; `rule` is the entry, or the default, that decided, as the audit log names it."""

    allowed: bool
    rule: str


SUPER_USER: Final = Ruling(True, "SuperUser")
DENIED_BY_DEFAULT: Final = Ruling(False, "DefaultDeny")
ALLOWED_BY_DEFAULT: Final = Ruling(True, "DefaultAllow")


class _RangedEntry(NamedTuple):
    """An entry, and its host if that is a range."""

    entry: AccessControlEntry
    hosts: HostRange | None

    def concerns(self, principal: str, host: str) -> bool:
        """Return whether the entry is for this principal at this address."""
        entry, hosts = self
        return entry.principal in (principal, WILDCARD_PRINCIPAL) and (
            entry.host in (host, WILDCARD) or (hosts is not None and holds(hosts, host))
        )


class AclAuthorizer:
    """Decides by the access control lists; `follow` applies changes of the lists."""

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_everyone_if_no_acl_found: bool = False,
        with_ranges: bool = True,
    ) -> None:
        """Begin without ACLs; `super_users` are principals such as `User:admin`.

        The default for resources without an ACL is to deny.  Without ranges, each host is compared
        as text, as Apache Kafka 3.9 does.
        """
        self.super_users = frozenset(super_users)
        self._default = ALLOWED_BY_DEFAULT if allow_everyone_if_no_acl_found else DENIED_BY_DEFAULT
        self._range_of = range_of if with_ranges else _no_range
        self._acls: dict[ResourcePattern, list[_RangedEntry]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        self._remembered: dict[tuple[str, str, int, int, str], Ruling] = {}

    def follow(self, acls: Acls) -> None:
        """Replace the entries on these resource patterns; an empty set removes them."""
        for pattern, entries in acls.items():
            had_entries = pattern in self._acls
            if entries:
                self._acls[pattern] = [
                    _RangedEntry(each, self._range_of(each.host)) for each in entries
                ]
            else:
                self._acls.pop(pattern, None)
            if pattern.pattern_type == PatternType.PREFIXED and had_entries != bool(entries):
                lengths = self._prefix_lengths.setdefault(pattern.resource_type, Counter())
                lengths[len(pattern.name)] += 1 if entries else -1
                lengths += Counter()  # removes lengths with a count of 0
                self._prefix_lengths[pattern.resource_type] = lengths
        self._remembered.clear()

    def ruling(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Ruling:
        """Return whether `principal` from `host` may do `operation` on the resource, and by which
        rule.
        """
        key = principal, host, operation, resource_type, name
        ruling = self._remembered.get(key)
        if ruling is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            ruling = self._remembered[key] = self._decide(*key)
        return ruling

    def _decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Ruling:
        """Return whether the operation is allowed, and the rule that decides.

        A denying entry wins over all allowing ones. Allowing one operation may imply another (READ
        implies DESCRIBE), but denying does not.
        """
        if principal in self.super_users:
            return SUPER_USER
        implied_by = IMPLIED_BY.get(operation, frozenset[int]())
        has_entries = False
        allowing: Ruling | None = None
        for pattern in self._matching(resource_type, name):
            for rule in self._acls[pattern]:
                has_entries = True
                if not rule.concerns(principal, host):
                    continue
                entry = rule.entry
                is_exact = entry.operation in (operation, AclOperation.ALL)
                if entry.permission == AclPermissionType.DENY:
                    if is_exact:
                        return Ruling(False, rule_text(pattern, entry))
                # Go on after an entry that allows: a later one may deny.
                elif allowing is None and (is_exact or entry.operation in implied_by):
                    allowing = Ruling(True, rule_text(pattern, entry))
        if allowing is not None:
            return allowing
        return DENIED_BY_DEFAULT if has_entries else self._default

    def _matching(self, resource_type: int, name: str) -> Iterator[ResourcePattern]:
        """Yield the patterns with entries that apply to the resource, the longest names first."""
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
        """Return whether the operation is allowed on some resource of the type, existing or not.

        InitProducerId needs this for topics (KIP-679).  As in Kafka, no operation implies another
        here.
        """
        if self.ruling(principal, host, operation, resource_type, _HARDCODED).allowed:
            return True
        allowed, denied = self._allowed_and_denied(principal, host, operation, resource_type)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            (kind, name) == (PatternType.LITERAL, WILDCARD) or not _is_overruled(kind, name, denied)
            for kind, name in allowed
        )

    def _allowed_and_denied(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
        """Return the patterns whose entries allow the operation, and those whose entries deny
        it.
        """
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for pattern, rules in self._acls.items():
            if pattern.resource_type != resource_type:
                continue
            for rule in rules:
                if rule.concerns(principal, host) and rule.entry.operation in (
                    operation,
                    AclOperation.ALL,
                ):
                    is_denial = rule.entry.permission == AclPermissionType.DENY
                    (denied if is_denial else allowed).add((pattern.pattern_type, pattern.name))
        return allowed, denied


def _no_range(host: str) -> None:
    """Take every host as text."""


def _is_overruled(kind: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether an allowing pattern is denied by the same name or by a prefix of it."""
    if kind == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def rule_text(pattern: ResourcePattern, entry: AccessControlEntry) -> str:
    """Return an entry in the form of Kafka's audit log."""
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={ResourceType(pattern.resource_type).name}, "
        f"resourceName={pattern.name}, patternType={PatternType(pattern.pattern_type).name}, "
        f"principal={entry.principal}, host={entry.host}, "
        f"operation={AclOperation(entry.operation).name}, "
        f"permissionType={AclPermissionType(entry.permission).name}))"
    )
