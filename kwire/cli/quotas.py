"""`kwire quotas`: lists, sets and removes quotas of users, clients and addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import json_option, number_text, print_json, print_table, say
from kwire.cli.text.suggestions import did_you_mean
from kwire.cli.values import setting, shortened

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.quotas import Entity

LISTING = Listing(
    100,
    "List, set and remove quotas of users, clients and addresses.",
    "list, set and remove quotas of users, client ids and addresses",
)

C = TypeVar("C", bound=Callable[..., Any])

_KINDS = {"user": "user", "client": "client-id", "ip": "ip"}
_QUOTAS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate",
)  # fmt: skip
"""The quotas of Apache Kafka 4.4.  A broker may have others, so only the broker refuses a name."""
DEFAULT_SHOWN = "(default)"


@click.group("quotas", cls=Commands)
def command() -> None:
    """List, set and remove quotas of users, client ids and addresses.

    \b
    producer_byte_rate        bytes written per second
    consumer_byte_rate        bytes read per second
    request_percentage        processor time of requests, in percent of one thread
    controller_mutation_rate  partitions created and deleted per second
    connection_creation_rate  new connections per second, for an address

    \b
      kwire quotas set --user alice producer_byte_rate=1048576
      kwire quotas set --user-default --client loader request_percentage=25
      kwire quotas list
      kwire quotas remove --user alice producer_byte_rate
    """


def entity_options(command: C) -> C:
    """Add the options that name an entity (user, client id, address), which `_entity` reads."""
    for option, kind in reversed(_KINDS.items()):
        all_others = f"Every {kind} without quotas of its own."
        command = click.option(f"--{option}-default", is_flag=True, help=all_others)(command)
        command = click.option(f"--{option}", help=f"This {kind}.", metavar="NAME")(command)
    return command


def _entity(chosen: dict[str, Any]) -> Entity:
    """What the options name.  Raises UsageError."""
    entity: dict[str, str | None] = {}
    for option, kind in _KINDS.items():
        name, default = chosen[option], chosen[f"{option}_default"]
        if name is not None and default:
            raise click.UsageError(f"--{option} and --{option}-default are two different things")
        if name is not None or default:
            entity[kind] = name
    return entity


def _named(chosen: dict[str, Any]) -> Entity:
    """Return the entity that the options name.  Raises a usage error if they name none."""
    entity = _entity(chosen)
    if not entity:
        raise click.UsageError(
            "give the entity: --user, --client, --ip, or --user-default, --client-default, "
            "--ip-default"
        )
    return entity


@command.command("list")
@entity_options
@json_option
@connected
def list_command(cluster: Cluster, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 - options
    """List all quotas, or those of the entity that the options name."""
    from kwire.client.quotas import describe_quotas

    found = describe_quotas(cluster, _entity(chosen))
    if as_json:
        print_json([{"entity": dict(each.entity), "quotas": dict(each.values)} for each in found])
        return
    rows = [
        (*(_shown(each.entity, kind) for kind in _KINDS.values()), quota, number_text(value))
        for each in found
        for quota, value in sorted(each.values.items())
    ]
    print_table(["user", "client id", "address", "quota", "value"], rows)


def _shown(entity: Entity, kind: str) -> str:
    """Return a part of an entity for the table: its name, a word for the default, or nothing."""
    if kind not in entity:
        return ""
    name = entity[kind]
    return DEFAULT_SHOWN if name is None else name


@command.command("set")
@click.argument("quotas", metavar="QUOTA=NUMBER...", type=setting, nargs=-1, required=True)
@entity_options
@connected
def set_command(cluster: Cluster, quotas: tuple[tuple[str, str], ...], **chosen: Any) -> None:  # noqa: ANN401 - options
    """Set quotas of one user, client id, both together, or address."""
    _alter(cluster, _named(chosen), {name: _number(name, text) for name, text in quotas})


@command.command("remove")
@click.argument("quotas", metavar="QUOTA...", nargs=-1, required=True)
@entity_options
@connected
def remove_command(cluster: Cluster, quotas: tuple[str, ...], **chosen: Any) -> None:  # noqa: ANN401 - options
    """Remove quotas of one user, client id, both together, or address."""
    _alter(cluster, _named(chosen), dict.fromkeys(quotas))


def _number(name: str, text: str) -> float:
    """Parses the value of a quota.  Raises click.BadParameter if it is not a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise click.BadParameter(
            f"{name} must be a number like 1048576 or 0.5, not {shortened(text)}"
        )
    return number


def _alter(cluster: Cluster, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Changes quotas of an entity; None removes one.  If the broker refuses a name that is not
    Kafka's, the error suggests the nearest one."""
    from kwire.client.errors import BrokerRefused, Misuse
    from kwire.client.quotas import alter_quotas
    from kwire.codecs.errors import ErrorCode

    try:
        alter_quotas(cluster, entity, values)
    except BrokerRefused as error:
        misspelt = [name for name in values if name not in _QUOTAS]
        if error.code != ErrorCode.INVALID_REQUEST or not misspelt:
            raise
        raise Misuse(f"{error}{did_you_mean(misspelt[0], _QUOTAS)}") from error
    whom = ", ".join(f"{kind} {name or DEFAULT_SHOWN}" for kind, name in entity.items())
    say(f"quotas of {whom} changed")
