"""Access control lists, users with passwords, and quotas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

from kwire.client.access.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
    delete_acls,
    describe_acls,
    only,
)
from kwire.client.access.users import (
    MECHANISMS,
    describe_users,
    remove_passwords,
    set_passwords,
)
from kwire.client.cluster import Cluster
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.quotas import Entity, alter_quotas, describe_quotas
from kwire.codecs.errors import ErrorCode

E = TypeVar("E", bound=IntEnum)

# -- access control lists


@dataclass(frozen=True, slots=True)
class AclsPage:
    """The rules of the cluster, or why there are none."""

    rules: Sequence[Acl]
    has_authorizer: bool


RESOURCES: Final = tuple(each for each in Resource if each is not Resource.ANY)
OPERATIONS: Final = tuple(each for each in Operation if each is not Operation.ANY)


def word(member: IntEnum) -> str:
    """The word of `kwire acls` for a member."""
    return member.name.lower().replace("_", "-")


def acls(cluster: Cluster) -> AclsPage:
    """All rules.  Raises ClientError, for example if the client may not see them."""
    try:
        return AclsPage(describe_acls(cluster, AclFilter()), has_authorizer=True)
    except BrokerRefused as refused:
        if refused.code != ErrorCode.SECURITY_DISABLED:
            raise
        return AclsPage((), has_authorizer=False)


def acl_of(fields: Mapping[str, str]) -> Acl:
    """The rule of a form's fields.  Raises Misuse."""
    resource = _member(Resource, fields.get("resource", ""))
    name = fields.get("name", "") if resource is not Resource.CLUSTER else CLUSTER_NAME
    principal = fields.get("principal", "").strip()
    if not name:
        raise Misuse("a rule needs the name of a resource; * stands for all")
    if ":" not in principal:
        raise Misuse("a principal is like User:alice; User:* stands for all")
    return Acl(
        resource,
        _member(Pattern, fields.get("pattern", "literal")),
        name,
        principal,
        fields.get("host", "").strip() or "*",
        _member(Operation, fields.get("operation", "")),
        _member(Permission, fields.get("permission", "")),
    )


def _member(kind: type[E], text: str) -> E:
    """The member of a word of `kwire acls`.  Raises Misuse; ANY is only for filters."""
    members = {word(each): each for each in kind if each.name not in ("ANY", "MATCH")}
    if text not in members:
        raise Misuse(f"{text[:60]!r} is none of {', '.join(members)}")
    return members[text]


def add_acl(cluster: Cluster, rule: Acl) -> None:
    """Add a rule.  Raises ClientError."""
    create_acls(cluster, [rule])


def remove_acl(cluster: Cluster, rule: Acl) -> int:
    """Remove a rule; returns how many were removed.  Raises ClientError."""
    return len(delete_acls(cluster, [only(rule)]))


def add_words(rule: Acl) -> list[str]:
    """The words of the `kwire` command that adds a rule."""
    verb = word(rule.permission)
    host = [] if rule.host == "*" else [f"--{verb}-host", rule.host]
    return [
        "acls", "add", f"--{verb}-principal", rule.principal, *host, *_resource_words(rule),
        "--operation", word(rule.operation),
    ]  # fmt: skip


def remove_words(rule: Acl) -> list[str]:
    """The words of the `kwire` command that removes a rule, and no other."""
    return [
        "acls", "remove", "--principal", rule.principal, "--host", rule.host,
        *_resource_words(rule), "--operation", word(rule.operation),
        "--permission", word(rule.permission),
    ]  # fmt: skip


def _resource_words(rule: Acl) -> list[str]:
    if rule.resource is Resource.CLUSTER:
        return ["--cluster"]
    pattern = ["--resource-pattern-type", "prefixed"] if rule.pattern is Pattern.PREFIXED else []
    return [f"--{word(rule.resource)}", rule.name, *pattern]


# -- users


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user that logs in by SCRAM."""

    name: str
    mechanisms: Mapping[str, int]
    """The iterations by mechanism."""
    rules: int | None
    """How many rules name the user; None if the client may not see rules."""


def users(cluster: Cluster) -> list[UserRow]:
    """All users with SCRAM credentials.  Raises ClientError."""
    found = describe_users(cluster)
    try:
        principals = [rule.principal for rule in acls(cluster).rules]
        counts = {name: principals.count(f"User:{name}") for name in found}
    except BrokerRefused:
        counts = {}
    return [UserRow(name, own, counts.get(name)) for name, own in found.items()]


def set_password(cluster: Cluster, name: str, password: str, mechanism: str) -> None:
    """Set the password of a user, who is created if need be.  Raises ClientError."""
    if not name or not password:
        raise Misuse("a user needs a name and a password")
    if mechanism not in MECHANISMS:
        raise Misuse(f"the mechanism is one of {', '.join(MECHANISMS)}")
    set_passwords(cluster, {name: password}, mechanism)


def remove_password(cluster: Cluster, name: str, mechanism: str) -> None:
    """Remove a password of a user.  Raises ClientError."""
    if mechanism not in MECHANISMS:
        raise Misuse(f"the mechanism is one of {', '.join(MECHANISMS)}")
    remove_passwords(cluster, [name], mechanism)


# -- quotas

QUOTAS: Final[Mapping[str, tuple[str, str]]] = {
    "producer_byte_rate": ("B/s", "bytes written per second"),
    "consumer_byte_rate": ("B/s", "bytes read per second"),
    "request_percentage": ("%", "processor time of requests, in percent of one thread"),
    "controller_mutation_rate": ("/s", "partitions created and deleted per second"),
    "connection_creation_rate": ("/s", "new connections per second, for an address"),
}
"""The quotas of Apache Kafka with unit and meaning."""
ENTITY_OPTIONS: Final = {"user": "user", "client-id": "client", "ip": "ip"}
"""The options of `kwire quotas` by the parts of an entity."""
DEFAULT: Final = "(default)"


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota of an entity."""

    entity: Entity
    quota: str
    value: float

    @property
    def unit(self) -> str:
        return QUOTAS.get(self.quota, ("", ""))[0]

    @property
    def meaning(self) -> str:
        return QUOTAS.get(self.quota, ("", ""))[1]

    @property
    def whom(self) -> str:
        """The entity as text."""
        return ", ".join(
            f"{kind} {DEFAULT if name is None else name}" for kind, name in self.entity.items()
        )


def quotas(cluster: Cluster) -> list[QuotaRow]:
    """All quotas.  Raises ClientError."""
    return [
        QuotaRow(_in_order(found.entity), quota, value)
        for found in describe_quotas(cluster, {})
        for quota, value in sorted(found.values.items())
    ]


def _in_order(entity: Entity) -> Entity:
    """An entity with the user first; brokers name the parts in any order."""
    order = list(ENTITY_OPTIONS)
    known = {kind: entity[kind] for kind in order if kind in entity}
    return {**known, **entity}


def entity_of(fields: Mapping[str, str]) -> dict[str, str | None]:
    """The entity of a form's fields: `KIND` is a name, `KIND-default` a switch.  Raises Misuse."""
    entity: dict[str, str | None] = {}
    for kind in ENTITY_OPTIONS:
        name, is_default = fields.get(kind, ""), bool(fields.get(f"{kind}-default"))
        if name and is_default:
            raise Misuse(f"a quota is for one {kind} or for all others, not for both")
        if name or is_default:
            entity[kind] = None if is_default else name
    if not entity:
        raise Misuse("a quota needs a user, a client id or an address")
    return entity


def quota_number(text: str) -> float:
    """The value of a quota.  Raises Misuse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Misuse(f"{text[:60]!r} is not a number like 1048576 or 0.5")
    return number


def change_quota(cluster: Cluster, entity: Entity, quota: str, value: float | None) -> None:
    """Set a quota of an entity, or remove it with None.  Raises ClientError."""
    alter_quotas(cluster, entity, {quota: value})


def quota_words(entity: Entity, quota: str, value: float | None) -> list[str]:
    """The words of the `kwire` command that sets or removes a quota."""
    options: list[str] = []
    for kind, name in entity.items():
        option = ENTITY_OPTIONS.get(kind, kind)
        options += [f"--{option}-default"] if name is None else [f"--{option}", name]
    if value is None:
        return ["quotas", "remove", *options, quota]
    return ["quotas", "set", *options, f"{quota}={value:.15g}"]
