"""`kwire users`: who may log in by SCRAM, and their passwords."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.text.output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

C = TypeVar("C", bound=Callable[..., Any])

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""What brokers take (KIP-554)."""
GENERATED_BYTES = 24


@click.group("users", cls=Commands)
def command() -> None:
    """List, add and remove users who log in by SCRAM, and change their passwords.

    A password is asked for, or read from the first line of standard input, or made up with
    --generate; it is no argument, for those are seen by all on a machine.  The broker is sent a
    salted hash of it.

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
    command = click.option(
        "--generate", is_flag=True, help="Make a password up, and print it on standard output."
    )(command)
    return click.option(
        "--iterations", type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX), metavar="N",
        default=ITERATIONS_MIN, show_default=True,
        help="How dear a guess is to who gets hold of the hash; at most 16384.",
    )(command)  # fmt: skip


@command.command("list")
@click.argument("names", metavar="USER...", nargs=-1)
@json_option
@connected
def list_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """List by what users may log in; all users where none is named."""
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
    default=("SCRAM-SHA-256",), show_default=True, help="What to log in by; may be given twice."
)
@_password_options
@connected
def add_command(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    """Add a user.  What somebody has already is changed by `password`."""
    from kwire.client.errors import Misuse

    known = _mechanisms_of(cluster, name)
    if twice := [each for each in mechanisms if each in known]:
        raise Misuse(
            f"user {name} has a password for {' and '.join(twice)} already:"
            f" `kwire users password {name}` changes it"
        )
    _set_password(cluster, name, mechanisms, iterations, generate)
    say(f"user {name} is added, for {' and '.join(mechanisms)}")


@command.command("password")
@click.argument("name", metavar="USER")
@_mechanism_option(help="Change that for this mechanism alone, else for all that the user has.")
@_password_options
@connected
def password_command(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    """Change a user's password.  Who is logged in stays so."""
    changed = mechanisms or tuple(sorted(_must_have(cluster, name)))
    _set_password(cluster, name, changed, iterations, generate)
    say(f"the password of user {name} is changed, for {' and '.join(changed)}")


@command.command("remove")
@click.argument("name", metavar="USER")
@_mechanism_option(help="Remove this alone, else all that the user has.")
@connected
def remove_command(cluster: Cluster, name: str, mechanisms: tuple[str, ...]) -> None:
    """Have a user log in no longer.  Who is logged in stays so, and so do quotas and rules."""
    from kwire.client.access.users import remove_passwords

    gone = mechanisms or tuple(sorted(_must_have(cluster, name)))
    for mechanism in gone:
        remove_passwords(cluster, [name], mechanism)
    say(f"user {name} logs in by {' and '.join(gone)} no longer")


def _mechanisms_of(cluster: Cluster, name: str) -> set[str]:
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
    """By what the user logs in.  Raises Misuse where that is nothing."""
    from kwire.client.errors import Misuse

    known = _mechanisms_of(cluster, name)
    if not known:
        raise Misuse(f"there is no user {name}: `kwire users list` shows all")
    return known


def _set_password(
    cluster: Cluster, name: str, mechanisms: tuple[str, ...], iterations: int, generate: bool
) -> None:
    from kwire.client.access.users import set_passwords

    password = _made_up() if generate else _asked(name)
    for mechanism in mechanisms:
        set_passwords(cluster, {name: password}, mechanism, iterations)
    if generate:
        click.echo(password)


def _made_up() -> str:
    import secrets

    return secrets.token_urlsafe(GENERATED_BYTES)


def _asked(name: str) -> str:
    """Of somebody at the terminal, else of standard input.  Raises UsageError."""
    if sys.stdin.isatty():
        asked: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("no password: standard input is empty, and there is no terminal")
    return password
