"""`kwire users`: lists, adds and removes users that log in by SCRAM, and changes passwords."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

LISTING = Listing(
    70,
    "List, add and remove users, and change their passwords.",
    "list, add and remove users that log in by SCRAM, and change their passwords",
)

C = TypeVar("C", bound=Callable[..., Any])

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""The iterations that brokers accept (KIP-554)."""
GENERATED_BYTES = 24


@click.group("users", cls=Commands)
def command() -> None:
    """List, add and remove users who log in by SCRAM, and change their passwords.

    The command asks for a password, reads it from the first line of standard input, or generates
    it with --generate.  It is not an argument, since all users of a machine can see those.  The
    broker receives only a salted hash.

    \b
      kwire users add alice
      kwire users add loader --generate > loader.password
      kwire users password alice < alice.password
      kwire users list
      kwire users remove alice
    """


def _mechanism_option(**more: Any) -> Callable[[C], C]:  # noqa: ANN401 - click's options
    return click.option(
        "-m", "--mechanism", "mechanisms", type=click.Choice(MECHANISMS, case_sensitive=False),
        multiple=True, **more,
    )  # fmt: skip


def _password_options(command: C) -> C:
    """Adds the options of commands that set a password."""
    command = click.option(
        "--generate", is_flag=True, help="Generate a password, and print it on standard output."
    )(command)
    return click.option(
        "--iterations", type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX), metavar="N",
        default=ITERATIONS_MIN, show_default=True,
        help="Iterations of the hash; more make a stolen hash harder to break, at most 16384.",
    )(command)  # fmt: skip


@command.command("list")
@click.argument("names", metavar="USER...", nargs=-1)
@json_option
@connected
def list_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """List users with their mechanisms; all users if none is named."""
    from kwire.client.access.users import describe_users

    found = describe_users(cluster, names)
    if as_json:
        print_json([{"user": name, "mechanisms": its} for name, its in found.items()])
        return
    rows = [
        (name, mechanism, iterations)
        for name, its in found.items()
        for mechanism, iterations in sorted(its.items())
    ]
    print_table(["user", "mechanism", "iterations"], rows)


@command.command("add")
@click.argument("name", metavar="USER")
@_mechanism_option(
    default=("SCRAM-SHA-256",), show_default=True, help="SASL mechanism; may be given twice."
)
@_password_options
@connected
def add_command(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    """Add a user with a password."""
    from kwire.client.errors import Misuse

    known = _mechanisms_of(cluster, name)
    if twice := [each for each in mechanisms if each in known]:
        raise Misuse(
            f"user {name} has a password for {' and '.join(twice)} already:"
            f" `kwire users password {name}` changes it"
        )
    _set_password(cluster, name, mechanisms, iterations, generate)
    say(f"user {name} added, for {' and '.join(mechanisms)}")


@command.command("password")
@click.argument("name", metavar="USER")
@_mechanism_option(help="Change it for this mechanism only. Default: all that the user has.")
@_password_options
@connected
def password_command(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    """Change a user's password.  Existing connections stay logged in."""
    changed = mechanisms or tuple(sorted(_must_have(cluster, name)))
    _set_password(cluster, name, changed, iterations, generate)
    say(f"password of user {name} changed, for {' and '.join(changed)}")


@command.command("remove")
@click.argument("name", metavar="USER")
@_mechanism_option(help="Remove this mechanism only. Default: all that the user has.")
@connected
def remove_command(cluster: Cluster, name: str, mechanisms: tuple[str, ...]) -> None:
    """Remove a user's passwords.  Existing connections, quotas and ACLs of the user stay."""
    from kwire.client.access.users import remove_passwords

    gone = mechanisms or tuple(sorted(_must_have(cluster, name)))
    for mechanism in gone:
        remove_passwords(cluster, [name], mechanism)
    say(f"user {name} can no longer log in by {' and '.join(gone)}")


def _mechanisms_of(cluster: Cluster, name: str) -> set[str]:
    """Return the mechanisms for which a user has a password; an empty set for an unknown user."""
    from kwire.client.access.users import describe_users
    from kwire.client.errors import BrokerRefused
    from kwire.codecs.errors import ErrorCode

    try:
        return {*describe_users(cluster, [name])[name]}
    except BrokerRefused as refused:
        if refused.code != ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return set()


def _must_have(cluster: Cluster, name: str) -> set[str]:
    """The mechanisms of a user.  Raises Misuse if there are none."""
    from kwire.client.errors import Misuse

    known = _mechanisms_of(cluster, name)
    if not known:
        raise Misuse(f"user {name} does not exist: `kwire users list` shows all users")
    return known


def _set_password(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    """Sets one password for all `mechanisms` of a user.  A generated password is printed only after
    the brokers have accepted it."""
    from kwire.client.access.users import set_passwords

    password = _generated() if generate else _entered(name)
    for mechanism in mechanisms:
        set_passwords(cluster, {name: password}, mechanism, iterations)
    if generate:
        click.echo(password)


def _generated() -> str:
    import secrets

    return secrets.token_urlsafe(GENERATED_BYTES)


def _entered(name: str) -> str:
    """The password that is typed at the terminal, or read from standard input.

    Raises UsageError if standard input is empty.
    """
    if sys.stdin.isatty():
        typed: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return typed
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("no password: standard input is empty, and there is no terminal")
    return password
