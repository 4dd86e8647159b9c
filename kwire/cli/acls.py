"""`kwire acls`: who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.commands import Commands
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.values import named_principal

if TYPE_CHECKING:
    from kwire.client.access.acls import Acl, AclFilter
    from kwire.client.cluster import Cluster

C = TypeVar("C", bound=Callable[..., Any])

OPERATIONS = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster-action",
    "describe-configs", "alter-configs", "idempotent-write", "create-tokens", "describe-tokens",
    "two-phase-commit",
)  # fmt: skip
TOPIC, GROUP, TRANSACTION, TOKEN, USER, CLUSTER = (
    "topic", "group", "transactional-id", "delegation-token", "user", "cluster"
)  # fmt: skip
_RESOURCES = {
    TOPIC: "A topic; '*' is all of them.",
    GROUP: "A group; '*' is all of them.",
    TRANSACTION: "A transactional id; '*' is all of them.",
    TOKEN: "A delegation token's id; '*' is all of them.",
    USER: "A user whose tokens others make or describe, as User:NAME.",
}
ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "producer": {TOPIC: ("write", "describe", "create"), TRANSACTION: ("write", "describe")},
    "consumer": {TOPIC: ("read", "describe"), GROUP: ("read",)},
}
"""What kafka-acls gives to who writes and who reads, by what it is on."""
COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")

Resource = tuple[str, str]
"""Its kind and its name, as options give them."""
_ANYTHING = ("any", "")


@click.group("acls", cls=Commands)
def command() -> None:
    """List, add and remove rules of who may do what: Kafka's access control lists.

    The brokers need an authorizer (authorizer.class.name).  What no rule is about is for super
    users alone, and what one rule denies no other allows.

    \b
      kwire acls add --allow-principal User:alice --producer --topic orders
      kwire acls add --allow-principal User:bob --consumer --topic orders --group reports
      kwire acls add --deny-principal User:eve --topic ord --resource-pattern-type prefixed
      kwire acls list --topic orders
      kwire acls remove --principal User:eve
    """


# -- options


def resource_options(command: C) -> C:
    """What rules are on; the command is called with what `_resources` takes."""
    command = click.option("--cluster", "whole", is_flag=True, help="The cluster itself.")(command)
    for kind, words in reversed(_RESOURCES.items()):
        command = click.option(f"--{kind}", metavar="NAME", multiple=True, help=words)(command)
    return command


def _resources(chosen: Mapping[str, Any]) -> list[Resource]:
    from kwire.client.access.acls import CLUSTER_NAME

    named = [(kind, name) for kind in _RESOURCES for name in chosen[kind.replace("-", "_")]]
    return [*named, (CLUSTER, CLUSTER_NAME)] if chosen["whole"] else named


def _pattern_option(choices: Sequence[str], default: str, words: str) -> Callable[[C], C]:
    return click.option(
        "--resource-pattern-type", "pattern", type=click.Choice(choices), default=default,
        show_default=True, help=words,
    )  # fmt: skip


def _operation_option(words: str) -> Callable[[C], C]:
    return click.option(
        "--operation", "operations", type=click.Choice(OPERATIONS, case_sensitive=False),
        multiple=True, metavar="NAME", help=f"{words}: {', '.join(OPERATIONS)}.",
    )  # fmt: skip


def _principal_option(*names: str, words: str) -> Callable[[C], C]:
    return click.option(
        *names, type=named_principal, metavar="TYPE:NAME", multiple=True, help=words
    )


def filter_options(command: C) -> C:
    """Which rules are meant; the command is called with what `_filters` takes."""
    words = "What is allowed, or what is denied."
    command = click.option("--permission", type=click.Choice(("allow", "deny")), help=words)(
        command
    )
    command = click.option("--host", metavar="ADDRESS", help="From where.")(command)
    command = _operation_option("What may or may not be done")(command)
    return _principal_option("-p", "--principal", "principals", words="Who, as User:NAME.")(command)


def _filters(chosen: Mapping[str, Any]) -> list[AclFilter]:
    """One for each thing that is named with each who and what."""
    from kwire.client.access import acls

    permission = acls.Permission[(chosen["permission"] or "any").upper()]
    return [
        acls.AclFilter(
            acls.Resource[_constant(kind)],
            acls.Pattern[chosen["pattern"].upper()] if name else acls.Pattern.ANY,
            name or None,
            principal,
            chosen["host"],
            acls.Operation[_constant(operation)],
            permission,
        )
        for kind, name in [*_resources(chosen)] or [_ANYTHING]
        for principal in chosen["principals"] or [None]
        for operation in chosen["operations"] or ["any"]
    ]


def _constant(word: str) -> str:
    return word.upper().replace("-", "_")


# -- what is shown


def _row(acl: Acl) -> tuple[str, ...]:
    told = (acl.resource, acl.name, acl.pattern, *acl[3:])
    return tuple(
        each if isinstance(each, str) else each.name.lower().replace("_", "-") for each in told
    )


def _show(rules: Mapping[Acl, str], as_json: bool, what: str = "") -> None:
    """`what` is the title of what is said of each beside itself."""
    columns = (*COLUMNS, *([what] if what else []))
    rows = [(*_row(acl), *([said] if what else [])) for acl, said in rules.items()]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def _described(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    from kwire.client.access.acls import describe_acls

    return sorted({acl for each in filters for acl in describe_acls(cluster, each)})


# -- commands


@command.command("list")
@resource_options
@_pattern_option(
    ("any", "match", "literal", "prefixed"), "match",
    "How names are meant; match is whatever decides on what has that name.",
)  # fmt: skip
@filter_options
@json_option
@connected
def list_command(cluster: Cluster, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 - options
    """List all rules, or those that the options name."""
    _show(dict.fromkeys(_described(cluster, _filters(chosen)), ""), as_json)


@command.command("remove")
@resource_options
@_pattern_option(
    ("any", "match", "literal", "prefixed"), "literal",
    "How names are meant; match is whatever decides on what has that name.",
)  # fmt: skip
@filter_options
@click.option("--all", "everything", is_flag=True, help="All rules there are.")
@asking_options()
@json_option
@connected
def remove_command(
    cluster: Cluster,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 - options
) -> None:
    """Remove the rules that the options name.  They are shown, and somebody is asked.

    \b
      kwire acls remove --topic orders
      kwire acls remove --principal User:eve --yes
      kwire acls remove --group reports --principal User:bob --operation read --dry-run
    """
    from kwire.client.access.acls import delete_acls, only

    names_some = any(value for name, value in chosen.items() if name != "pattern")
    if names_some is everything:
        raise click.UsageError("say which rules are to go, or --all")
    found = _described(cluster, _filters(chosen))
    _show(dict.fromkeys(found, ""), as_json)
    if dry_run or not found:
        say(f"{NOT_CHANGED}: {counted(len(found), 'rule')} would be removed")
        return
    must_agree("Remove them?", yes=yes)
    gone = delete_acls(cluster, [only(each) for each in found])
    say(f"{counted(len(gone), 'rule')} removed")


@command.command("add")
@_principal_option("--allow-principal", "allowed", words="Who may, as User:NAME; User:* is all.")
@_principal_option("--deny-principal", "denied", words="Who may not.")
@click.option("--allow-host", metavar="ADDRESS", multiple=True, help="From here alone.")
@click.option("--deny-host", metavar="ADDRESS", multiple=True, help="From here not.")
@_operation_option("What they may or may not do; all is the default")
@click.option("--producer", is_flag=True, help="What a producer needs, on --topic and the like.")
@click.option("--consumer", is_flag=True, help="What a consumer needs, on --topic and --group.")
@resource_options
@_pattern_option(
    ("literal", "prefixed"), "literal", "Whether a name is meant, or all that begin with it."
)
@click.option("--dry-run", is_flag=True, help="Show what would be added, and do nothing.")
@json_option
@connected
def add_command(
    cluster: Cluster,
    dry_run: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 - options
) -> None:
    """Add rules of who may, or may not, do what.  They are shown, with those that are there.

    \b
      kwire acls add --allow-principal User:alice --producer --topic orders
      kwire acls add --allow-principal User:bob --consumer --topic orders --group reports
      kwire acls add --allow-principal User:ops --operation describe --cluster
      kwire acls add --deny-principal User:eve --deny-host 10.0.0.7 --topic '*'
    """
    from kwire.client.access.acls import create_acls, only

    wanted = list(dict.fromkeys(_added(chosen)))
    there = set(_described(cluster, [only(each) for each in wanted]))
    new = [each for each in wanted if each not in there]
    _show({each: "there" if each in there else "new" for each in wanted}, as_json, "state")
    if dry_run or not new:
        say(f"{NOT_CHANGED}: {counted(len(new), 'rule')} would be added")
        return
    create_acls(cluster, new)
    say(f"{counted(len(new), 'rule')} added")


def _added(chosen: Mapping[str, Any]) -> Iterator[Acl]:
    """The rules that options ask for.  Raises UsageError."""
    from kwire.client.access import acls

    pattern = acls.Pattern[chosen["pattern"].upper()]
    for (kind, name), operation in _asked(chosen):
        for permission, principal, host in _who(chosen):
            yield acls.Acl(
                acls.Resource[_constant(kind)],
                pattern if kind != CLUSTER else acls.Pattern.LITERAL,
                name,
                principal,
                host,
                acls.Operation[_constant(operation)],
                acls.Permission[permission],
            )


def _who(chosen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Permission, principal, host.  Raises UsageError where there is nobody."""
    if not (chosen["allowed"] or chosen["denied"]):
        raise click.UsageError("say whom: --allow-principal or --deny-principal")
    for permission, principals, hosts in (
        ("ALLOW", chosen["allowed"], chosen["allow_host"]),
        ("DENY", chosen["denied"], chosen["deny_host"]),
    ):
        if hosts and not principals:
            word = permission.lower()
            raise click.UsageError(f"--{word}-host says nothing without --{word}-principal")
        for principal in principals:
            for host in hosts or ["*"]:
                yield permission, principal, host


def _asked(chosen: Mapping[str, Any]) -> Iterator[tuple[Resource, str]]:
    """What may be done on what.  Raises UsageError."""
    resources = _resources(chosen)
    if not resources:
        raise click.UsageError("say on what: --topic, --group, --cluster and the like")
    if chosen["producer"] or chosen["consumer"]:
        yield from _needed(chosen, resources)
        return
    for resource in resources:
        for operation in chosen["operations"] or ["all"]:
            yield resource, operation


def _needed(
    chosen: Mapping[str, Any], resources: Sequence[Resource]
) -> Iterator[tuple[Resource, str]]:
    """What those need who write, or read.  Raises UsageError."""
    if chosen["operations"] or chosen["denied"]:
        raise click.UsageError("--producer and --consumer stand for operations that are allowed")
    roles = [(role, needs) for role, needs in ROLES.items() if chosen[role]]
    for role, needs in roles:
        lacking = [kind for kind in needs if kind != TRANSACTION and not chosen[kind]]
        if lacking:
            raise click.UsageError(f"a {role} needs --{' and --'.join(lacking)}")
    for resource in resources:
        its = [operation for _, needs in roles for operation in needs.get(resource[0], ())]
        if not its:
            raise click.UsageError(f"--{resource[0]} is nothing that they need")
        for operation in its:
            yield resource, operation
