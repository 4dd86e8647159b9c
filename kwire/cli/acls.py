"""`kwire acls`: lists, adds and removes access control lists (ACLs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.values import named_principal

if TYPE_CHECKING:
    from kwire.client.access.acls import Acl, AclFilter
    from kwire.client.cluster import Cluster

LISTING = Listing(
    80,
    "List, add and remove access control lists (ACLs).",
    "list, add and remove access control rules",
)

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
    TOPIC: "A topic; '*' means all topics.",
    GROUP: "A group; '*' means all groups.",
    TRANSACTION: "A transactional id; '*' means all.",
    TOKEN: "The id of a delegation token; '*' means all tokens.",
    USER: "A user, as User:NAME, for whom others create or describe tokens.",
}
ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "producer": {TOPIC: ("write", "describe", "create"), TRANSACTION: ("write", "describe")},
    "consumer": {TOPIC: ("read", "describe"), GROUP: ("read",)},
}
"""The operations that --producer and --consumer allow, by resource, as in kafka-acls."""
COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")

Resource = tuple[str, str]
"""(kind, name) of a resource, as options give them."""
_ANYTHING = ("any", "")


@click.group("acls", cls=Commands)
def command() -> None:
    """List, add and remove access control lists (ACLs).

    The brokers need an authorizer (authorizer.class.name).  Without a rule for a resource only
    super users may use it.  A rule that denies wins over rules that allow.

    \b
      kwire acls add --allow-principal User:alice --producer --topic orders
      kwire acls add --allow-principal User:bob --consumer --topic orders --group reports
      kwire acls add --deny-principal User:eve --topic ord --resource-pattern-type prefixed
      kwire acls list --topic orders
      kwire acls remove --principal User:eve
    """


# -- options


def resource_options(command: C) -> C:
    """Add the options that name resources, which `_resources` reads."""
    command = click.option("--cluster", "whole", is_flag=True, help="The cluster itself.")(command)
    for kind, words in reversed(_RESOURCES.items()):
        command = click.option(f"--{kind}", metavar="NAME", multiple=True, help=words)(command)
    return command


def _resources(chosen: Mapping[str, Any]) -> list[Resource]:
    """Return the (type, name) of each resource that the options name."""
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
    """Add the options that select rules, which `_filters` reads."""
    words = "Only rules that allow, or only rules that deny."
    command = click.option("--permission", type=click.Choice(("allow", "deny")), help=words)(
        command
    )
    command = click.option("--host", metavar="ADDRESS", help="Only rules with this host.")(command)
    command = _operation_option("Only rules about this operation")(command)
    words = "Only rules for this principal, as User:NAME."
    return _principal_option("-p", "--principal", "principals", words=words)(command)


def _filters(chosen: Mapping[str, Any]) -> list[AclFilter]:
    """A filter for each combination of the given resources, principals and operations."""
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
    """Return the row of a rule in the table of rules."""
    fields = (acl.resource, acl.name, acl.pattern, *acl[3:])
    return tuple(
        field if isinstance(field, str) else field.name.lower().replace("_", "-")
        for field in fields
    )


def _show(rules: Mapping[Acl, str], as_json: bool, note_column: str = "") -> None:
    """Print the rules; `note_column` names a further column, with the notes on the rules."""
    columns = (*COLUMNS, *([note_column] if note_column else []))
    rows = [(*_row(acl), *([note] if note_column else [])) for acl, note in rules.items()]
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
    "Which rules a name selects: match selects all rules that apply to a resource of that name.",
)  # fmt: skip
@filter_options
@json_option
@connected
def list_command(cluster: Cluster, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 - options
    """List all rules, or those that the options select."""
    _show(dict.fromkeys(_described(cluster, _filters(chosen)), ""), as_json)


@command.command("remove")
@resource_options
@_pattern_option(
    ("any", "match", "literal", "prefixed"), "literal",
    "Which rules a name selects: match selects all rules that apply to a resource of that name.",
)  # fmt: skip
@filter_options
@click.option("--all", "everything", is_flag=True, help="Remove all rules.")
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
    """Remove the rules that the options select.  Shows them and asks before it removes them.

    \b
      kwire acls remove --topic orders
      kwire acls remove --principal User:eve --yes
      kwire acls remove --group reports --principal User:bob --operation read --dry-run
    """
    from kwire.client.access.acls import delete_acls, only

    names_some = any(value for name, value in chosen.items() if name != "pattern")
    if names_some is everything:
        raise click.UsageError("give options that select rules, or --all")
    rules = _described(cluster, _filters(chosen))
    _show(dict.fromkeys(rules, ""), as_json)
    if dry_run or not rules:
        say(f"{NOT_CHANGED}: {counted(len(rules), 'rule')} would be removed")
        return
    must_agree("Remove these rules?", yes=yes)
    removed = delete_acls(cluster, [only(rule) for rule in rules])
    say(f"{counted(len(removed), 'rule')} removed")


@command.command("add")
@_principal_option(
    "--allow-principal", "allowed", words="Allow this principal, as User:NAME; User:* means all."
)
@_principal_option("--deny-principal", "denied", words="Deny this principal.")
@click.option(
    "--allow-host",
    metavar="ADDRESS",
    multiple=True,
    help="Allow only connections from ADDRESS, which can be a range such as 10.0.0.0/8.",
)
@click.option(
    "--deny-host",
    metavar="ADDRESS",
    multiple=True,
    help="Deny only connections from ADDRESS, or from a range.",
)
@_operation_option("The operation to allow or deny, by default all")
@click.option(
    "--producer", is_flag=True,
    help="Allow what a producer needs on --topic and --transactional-id.",
)  # fmt: skip
@click.option(
    "--consumer", is_flag=True, help="Allow what a consumer needs on --topic and --group."
)
@resource_options
@_pattern_option(
    ("literal", "prefixed"), "literal", "Whether a name is exact, or a prefix of names."
)
@click.option("--dry-run", is_flag=True, help="Show what would be added, and add nothing.")
@json_option
@connected
def add_command(
    cluster: Cluster,
    dry_run: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 - options
) -> None:
    """Add rules that allow or deny operations.  Shows the rules, and which of them exist already.

    \b
      kwire acls add --allow-principal User:alice --producer --topic orders
      kwire acls add --allow-principal User:bob --consumer --topic orders --group reports
      kwire acls add --allow-principal User:ops --operation describe --cluster
      kwire acls add --deny-principal User:eve --deny-host 10.0.0.0/8 --topic '*'
    """
    from kwire.client.access.acls import create_acls, only

    rules = list(dict.fromkeys(_added(chosen)))
    existing = set(_described(cluster, [only(rule) for rule in rules]))
    new = [rule for rule in rules if rule not in existing]
    _show({rule: "there" if rule in existing else "new" for rule in rules}, as_json, "state")
    if dry_run or not new:
        say(f"{NOT_CHANGED}: {counted(len(new), 'rule')} would be added")
        return
    create_acls(cluster, new)
    say(f"{counted(len(new), 'rule')} added")


def _added(chosen: Mapping[str, Any]) -> Iterator[Acl]:
    """The rules that the options describe.  Raises UsageError."""
    from kwire.client.access import acls

    pattern = acls.Pattern[chosen["pattern"].upper()]
    for (kind, name), operation in _operations(chosen):
        for permission, principal, host in _principals(chosen):
            yield acls.Acl(
                acls.Resource[_constant(kind)],
                pattern if kind != CLUSTER else acls.Pattern.LITERAL,
                name,
                principal,
                host,
                acls.Operation[_constant(operation)],
                acls.Permission[permission],
            )


def _principals(chosen: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(permission, principal, host) of each rule.  Raises UsageError without a principal."""
    if not (chosen["allowed"] or chosen["denied"]):
        raise click.UsageError("give --allow-principal or --deny-principal")
    for permission, principals, hosts in (
        ("ALLOW", chosen["allowed"], chosen["allow_host"]),
        ("DENY", chosen["denied"], chosen["deny_host"]),
    ):
        if hosts and not principals:
            word = permission.lower()
            raise click.UsageError(f"--{word}-host needs --{word}-principal")
        for principal in principals:
            for host in hosts or ["*"]:
                yield permission, principal, host


def _operations(chosen: Mapping[str, Any]) -> Iterator[tuple[Resource, str]]:
    """(resource, operation) of each rule.  Raises UsageError without a resource."""
    resources = _resources(chosen)
    if not resources:
        raise click.UsageError("give the resource: --topic, --group, --cluster or another one")
    if chosen["producer"] or chosen["consumer"]:
        yield from _role_operations(chosen, resources)
        return
    for resource in resources:
        for operation in chosen["operations"] or ["all"]:
            yield resource, operation


def _role_operations(
    chosen: Mapping[str, Any], resources: Sequence[Resource]
) -> Iterator[tuple[Resource, str]]:
    """(resource, operation) of all that --producer and --consumer allow.  Raises UsageError."""
    if chosen["operations"] or chosen["denied"]:
        raise click.UsageError(
            "--producer and --consumer choose the operations and allow them: leave out "
            "--operation and --deny-principal"
        )
    roles = [(role, needs) for role, needs in ROLES.items() if chosen[role]]
    for role, needs in roles:
        lacking = [kind for kind in needs if kind != TRANSACTION and not chosen[kind]]
        if lacking:
            raise click.UsageError(f"a {role} needs --{' and --'.join(lacking)}")
    for resource in resources:
        operations = [operation for _, needs in roles for operation in needs.get(resource[0], ())]
        if not operations:
            raise click.UsageError(
                f"--{resource[0]} does not go with --{' and --'.join(role for role, _ in roles)}"
            )
        for operation in operations:
            yield resource, operation
