"""The changes that give a cluster the declared state, in the order they are made.

Topics come first, since records go there and ACLs name them; then records.  ACLs come before users,
so that no user can log in before a rule that restricts it; quotas come last.  Removals have the
opposite order: users, ACLs (those that allow before those that deny), quotas, configs of groups
and subscriptions, and topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final, TypeVar

from kwire.cli.declared_state.state import (
    ITERATIONS_MIN,
    Declared,
    DeclaredAcl,
    DeclaredTopic,
    DeclaredUser,
    Entity,
    FoundState,
    FoundTopic,
    Secret,
    Seed,
    Settings,
    is_kafkas_own,
)

K = TypeVar("K")

Edits = Mapping[str, tuple[str | None, str | None]]
"""The (old, new) value of each config; None if it is not set on the resource."""
Rates = Mapping[str, tuple[float | None, float | None]]

TOPIC: Final = "topic"
GROUP: Final = "group"
CLIENT_METRICS: Final = "client-metrics"


@dataclass(frozen=True, slots=True)
class TopicCreation:
    name: str
    partitions: int | None
    replication: int | None
    configs: Settings


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class TopicRemoval:
    name: str


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Changes of the configs of one resource; `kind` is a type of `kwire configs`."""

    kind: str
    name: str
    edits: Edits


@dataclass(frozen=True, slots=True)
class SeedTopic:
    name: str
    seeds: tuple[Seed, ...]


@dataclass(frozen=True, slots=True)
class SetPassword:
    """A new password of a user; `is_new` if the user had none for that mechanism."""

    name: str
    mechanism: str
    iterations: int
    password: Secret
    is_new: bool


@dataclass(frozen=True, slots=True)
class RemovePassword:
    name: str
    mechanism: str


@dataclass(frozen=True, slots=True)
class AddAcl:
    acl: DeclaredAcl


@dataclass(frozen=True, slots=True)
class RemoveAcl:
    acl: DeclaredAcl


@dataclass(frozen=True, slots=True)
class AlterQuotas:
    entity: Entity
    rates: Rates


Change = (
    TopicCreation
    | PartitionIncrease
    | TopicRemoval
    | AlterConfigs
    | SeedTopic
    | SetPassword
    | RemovePassword
    | AddAcl
    | RemoveAcl
    | AlterQuotas
)


@dataclass(slots=True)
class ApplyPlan:
    """The changes.  If there are `conflicts`, messages about impossible changes, none is made."""

    changes: list[Change] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def plan(
    declared: Declared, found: FoundState, *, prune: bool = False, passwords: bool = False
) -> ApplyPlan:
    """The plan that changes `found` to `declared`.

    With `prune`, things that the sections of the declaration do not name are removed.  With
    `passwords`, all passwords are set again; otherwise only those of users without one, since the
    cluster does not show passwords.
    """
    planning = _Planning(declared, found, prune, passwords)
    planning.untold()
    changes = [
        *planning.topics(),
        *planning.seeds(),
        *planning.settings(GROUP, declared.groups, found.groups),
        *planning.settings(CLIENT_METRICS, declared.client_metrics, found.client_metrics),
        *planning.new_acls(),
        *planning.users(),
        *planning.quotas(),
    ]
    if prune:
        changes += [*planning.removals()]
    return ApplyPlan(changes, planning.conflicts)


def same_value(one: str, other: str) -> bool:
    """Whether two texts mean the same value of a config.

    Brokers return numbers, booleans and lists in another format than they were given.
    """
    if one == other:
        return True
    if "," in one or "," in other:
        mine, its = one.split(","), other.split(",")
        return len(mine) == len(its) and all(map(same_value, mine, its))
    one, other = one.strip(), other.strip()
    if one == other or {one.lower(), other.lower()} in ({"true"}, {"false"}):
        return True
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def edits_of(
    wanted: Settings, there: Settings, *, prune: bool
) -> dict[str, tuple[str | None, str | None]]:
    """The changes from the existing configs to the wanted ones."""
    edits: dict[str, tuple[str | None, str | None]] = {}
    for name, value in wanted.items():
        if name not in there or not same_value(value, there[name]):
            edits[name] = (there.get(name), value)
    if prune:
        edits |= {name: (there[name], None) for name in there if name not in wanted}
    return edits


class _Planning:
    """One comparison of the declared and the found state, which collects conflicts."""

    def __init__(self, declared: Declared, found: FoundState, prune: bool, passwords: bool) -> None:
        """`prune` removes undeclared configs and quotas; `passwords` sets all passwords again."""
        self._declared = declared
        self._found = found
        self._prune = prune
        self._passwords = passwords
        self.conflicts: list[str] = []

    def untold(self) -> None:
        """Add a conflict for each declared section that the cluster did not return."""
        for section, why in self._found.untold.items():
            if getattr(self._declared, section.replace("-", "_")) is not None:
                self.conflicts.append(f"{section}: {why}")

    # -- topics

    def topics(self) -> Iterator[Change]:
        """Yield the changes that create declared topics, or alter the existing ones."""
        for name, topic in (self._declared.topics or {}).items():
            there = self._found.topics.get(name)
            if there is None:
                yield TopicCreation(name, topic.partitions, topic.replication, topic.configs)
            else:
                yield from self._altered(name, topic, there)

    def _altered(self, name: str, topic: DeclaredTopic, there: FoundTopic) -> Iterator[Change]:
        """Yield the changes that give an existing topic the declared state.  Fewer partitions and
        another replication factor are conflicts: a declaration cannot change them."""
        wanted = topic.partitions or there.partitions
        if wanted < there.partitions:
            self.conflicts.append(
                f"topic {name} has {there.partitions} partitions, and {wanted} are declared: the"
                " number can only be raised"
            )
        elif wanted > there.partitions:
            yield PartitionIncrease(name, there.partitions, wanted)
        if topic.replication not in (None, there.replication):
            self.conflicts.append(
                f"topic {name} has {there.replication} replicas of each partition, and"
                f" {topic.replication} are declared: `kwire cluster reassign` moves replicas"
            )
        prune = self._prune and not is_kafkas_own(name, there)
        if edits := edits_of(topic.configs, there.configs, prune=prune):
            yield AlterConfigs(TOPIC, name, edits)

    def seeds(self) -> Iterator[Change]:
        """Records, for topics that have never had one, so that they are written only once."""
        for name, topic in (self._declared.topics or {}).items():
            there = self._found.topics.get(name)
            if topic.seeds and (there is None or there.is_empty):
                yield SeedTopic(name, topic.seeds)

    def settings(
        self,
        kind: str,
        declared: Mapping[str, Settings] | None,
        found: Mapping[str, Settings],
    ) -> Iterator[Change]:
        """Yield the changes of configs of groups or client metrics (`kind`)."""
        for name, wanted in (declared or {}).items():
            if edits := edits_of(wanted, found.get(name, {}), prune=self._prune):
                yield AlterConfigs(kind, name, edits)

    # -- who may do what, and how much

    def users(self) -> Iterator[Change]:
        """Yield the changes that give users their mechanisms.  Without declared iterations,
        existing ones stay."""
        for name, user in (self._declared.users or {}).items():
            there = self._found.users.get(name, {})
            for mechanism, iterations in user.mechanisms.items():
                has = there.get(mechanism)
                wanted = iterations or has or ITERATIONS_MIN
                yield from self._password(name, user, mechanism, has, wanted)

    def _password(
        self, name: str, user: DeclaredUser, mechanism: str, there: int | None, iterations: int
    ) -> Iterator[Change]:
        """Yield the change that sets a password, if the iterations differ or passwords are to be
        set anyway.  Brokers do not return passwords, so an equal password cannot be detected.
        Without a password in the declaration, a needed change is a conflict."""
        if iterations == there and not (self._passwords and user.password is not None):
            return
        if user.password is None:
            has = f"has {there} iterations" if there is not None else "has none"
            self.conflicts.append(
                f"user {name} is declared without a password, and for {mechanism} {has}: add"
                " `password: {env: VARIABLE}` or `password: {file: NAME}`"
            )
            return
        yield SetPassword(name, mechanism, iterations, user.password, there is None)

    def new_acls(self) -> Iterator[Change]:
        new = (self._declared.acls or frozenset()) - self._found.acls
        yield from (AddAcl(acl) for acl in sorted(new, key=_denying_first))

    def quotas(self) -> Iterator[Change]:
        """Yield the changes of quotas whose rates differ.  With `prune`, undeclared rates of a
        declared entity are removed."""
        for entity, wanted in (self._declared.quotas or {}).items():
            there = self._found.quotas.get(entity, {})
            rates: dict[str, tuple[float | None, float | None]] = {
                name: (there.get(name), rate)
                for name, rate in wanted.items()
                if there.get(name) != rate
            }
            if self._prune:
                rates |= {name: (there[name], None) for name in there if name not in wanted}
            if rates:
                yield AlterQuotas(entity, rates)

    # -- what is to go

    def removals(self) -> Iterator[Change]:
        """Yield the removals of all that is not declared, in sections that are declared.  Topics
        that Kafka itself creates stay."""
        declared, found = self._declared, self._found
        if declared.users is not None:
            for name, mechanisms in sorted(found.users.items()):
                kept = declared.users[name].mechanisms if name in declared.users else {}
                yield from (RemovePassword(name, m) for m in sorted(mechanisms) if m not in kept)
        if declared.acls is not None:
            gone = sorted(found.acls - declared.acls, key=_denying_first, reverse=True)
            yield from map(RemoveAcl, gone)
        if declared.quotas is not None:
            for entity in _missing(found.quotas, declared.quotas):
                rates = {name: (rate, None) for name, rate in found.quotas[entity].items()}
                yield AlterQuotas(entity, rates)
        yield from _cleared(GROUP, declared.groups, found.groups)
        yield from _cleared(CLIENT_METRICS, declared.client_metrics, found.client_metrics)
        if declared.topics is not None:
            for name in _missing(found.topics, declared.topics):
                if not is_kafkas_own(name, found.topics[name]):
                    yield TopicRemoval(name)


def _denying_first(acl: DeclaredAcl) -> tuple[bool, DeclaredAcl]:
    return acl.permission != "deny", acl


def _cleared(
    kind: str, declared: Mapping[str, Settings] | None, found: Mapping[str, Settings]
) -> Iterator[Change]:
    """Yield the removals of all configs of groups or client metrics that are not declared.
    Nothing is removed if the section is not declared at all."""
    if declared is None:
        return
    for name in _missing(found, declared):
        if found[name]:
            yield AlterConfigs(kind, name, {each: (was, None) for each, was in found[name].items()})


def _missing(found: Mapping[K, object], declared: Mapping[K, object]) -> list[K]:
    """The found keys that are not declared, in an order that is the same in each run."""
    return sorted(found.keys() - declared.keys(), key=str)
