"""Formats a plan for users: additions (+), changes (~) and removals (-).

+ topic orders: 6 partitions
    cleanup.policy = compact
~ topic bills
    retention.ms: 1000 -> 2000
- topic old, with its records
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from kwire.cli.declared_state.plan import (
    TOPIC,
    AddAcl,
    AlterConfigs,
    AlterQuotas,
    Change,
    PartitionIncrease,
    RemoveAcl,
    RemovePassword,
    SeedTopic,
    SetPassword,
    TopicCreation,
    TopicRemoval,
)
from kwire.cli.declared_state.state import DeclaredAcl, Inline, Seed, entity_text

NEW, CHANGED, GONE = "+", "~", "-"
INDENT: Final = "    "


def lines(changes: Iterable[Change]) -> Iterator[str]:
    """The lines of a plan."""
    for change in changes:
        yield f"{sign(change)} {title(change)}"
        yield from (f"{INDENT}{detail}" for detail in details(change))


def summary(changes: Iterable[Change]) -> str:
    """`2 to add, 1 to change, 1 to remove`."""
    signs = [sign(change) for change in changes]
    return ", ".join(
        f"{signs.count(each)} to {verb}"
        for each, verb in ((NEW, "add"), (CHANGED, "change"), (GONE, "remove"))
    )


def sign(change: Change) -> str:
    """The sign of a change: NEW, CHANGED or GONE."""
    match change:
        case TopicCreation() | AddAcl() | SeedTopic() | SetPassword(is_new=True):
            return NEW
        case TopicRemoval() | RemovePassword() | RemoveAcl():
            return GONE
        case AlterConfigs(kind, _, edits) if kind != TOPIC:
            return _sign_of(edits.values())
        case AlterQuotas(_, rates):
            return _sign_of(rates.values())
        case _:
            return CHANGED


def _sign_of(pairs: Iterable[tuple[object, object]]) -> str:
    """Return the sign of a change with these (before, after) values: NEW, GONE or CHANGED."""
    pairs = list(pairs)
    if all(before is None for before, _ in pairs):
        return NEW
    return GONE if all(after is None for _, after in pairs) else CHANGED


def title(change: Change) -> str:
    """The change in one line."""
    match change:
        case TopicCreation(name, partitions, replication):
            counts = [_counted(partitions, "partition"), _counted(replication, "replica")]
            told = ", ".join(filter(None, counts))
            return f"topic {name}" + (f": {told}" if told else "")
        case PartitionIncrease(name, before, after):
            return f"topic {name}: {before} -> {after} partitions"
        case TopicRemoval(name):
            return f"topic {name}, with its records"
        case SeedTopic(name, seeds):
            return f"records of topic {name}: {_seeds(seeds)}"
        case AlterConfigs(kind, name):
            return f"{kind} {name}"
        case SetPassword(name, mechanism, iterations, is_new=is_new):
            new = "" if is_new else "another password, "
            return f"user {name}: {new}{mechanism}, {iterations} iterations"
        case RemovePassword(name, mechanism):
            return f"user {name}: {mechanism}"
        case AddAcl(acl) | RemoveAcl(acl):
            return f"acl {rule(acl)}"
        case AlterQuotas(entity):
            return f"quotas of {entity_text(entity)}"


def details(change: Change) -> Iterator[str]:
    """The configs or quotas that a change sets, one a line."""
    match change:
        case TopicCreation(configs=configs):
            yield from (f"{name} = {value}" for name, value in sorted(configs.items()))
        case AlterConfigs(edits=edits):
            for name, (before, after) in sorted(edits.items()):
                yield _edit(name, before, after)
        case AlterQuotas(rates=rates):
            for name, (was, rate) in sorted(rates.items()):
                yield _edit(name, _number(was), _number(rate))


def rule(acl: DeclaredAcl) -> str:
    """An ACL as text: `allow User:alice from * to read topic orders`."""
    name = f"{acl.name}*" if acl.pattern == "prefixed" else acl.name
    return (
        f"{acl.permission} {acl.principal} from {acl.host} to {acl.operation} {acl.resource} {name}"
    )


def _edit(name: str, before: str | None, after: str | None) -> str:
    if before is None:
        return f"{name} = {after}"
    return f"{name}: {before} -> {'the default' if after is None else after}"


def _number(rate: float | None) -> str | None:
    return None if rate is None else format(Decimal(repr(rate)), "f").removesuffix(".0")


def _counted(number: int | None, noun: str) -> str:
    if number is None:
        return ""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _seeds(seeds: Iterable[Seed]) -> str:
    inline = sum(isinstance(each, Inline) for each in seeds)
    files = [each.path for each in seeds if not isinstance(each, Inline)]
    return ", ".join(([_counted(inline, "record")] if inline else []) + files)
