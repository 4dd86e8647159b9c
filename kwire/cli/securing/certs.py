"""`kwire certs`: creates certificates of brokers and clients for development."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.grammar.bounds import CERTIFICATE_DAYS
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from kwire.security.tls.making import DevelopmentAuthority, Issued

LISTING = Listing(
    180,
    "Create certificates for development.",
    "make certificates for development, for brokers and clients",
)

FOLDER = "kwire-certs"
DAYS = 365
C = TypeVar("C", bound=Callable[..., Any])


def folder_option(command: C) -> C:
    """Adds the option --dir to a command."""
    return click.option(
        "--dir",
        "folder",
        default=FOLDER,
        show_default=True,
        metavar="FOLDER",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the authority and of the certificates that it signs.",
    )(command)


def making_options(command: C) -> C:
    """Adds the options of commands that make a certificate."""
    for option in (
        click.option("--p12", is_flag=True, help="Write a PKCS12 keystore instead of PEM."),
        click.option(
            "--days", type=CERTIFICATE_DAYS, default=DAYS, show_default=True,
            help="How many days the certificate is valid.",
        ),
        folder_option,
    ):  # fmt: skip
        command = option(command)
    return command


@click.group("certs", cls=Commands)
def command() -> None:
    """Create certificates for development: an authority, and keystores of brokers and clients.

    Each keystore comes with a properties file, which has the Kafka settings that use it.  The first
    certificate also creates the authority; brokers and clients have to trust its ca.pem.

    \b
      kwire certs broker localhost my-host 10.0.0.7     for a broker with these addresses
      kwire certs client alice                          for a client: User:CN=alice
      kwire certs client alice --p12 --days 30
      kwire certs list
    """


@command.command("broker")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--name", help="Name of its files. Default: the first HOST.")
@making_options
def broker(hosts: tuple[str, ...], name: str | None, folder: Path, days: int, p12: bool) -> None:
    """Create a keystore of a broker that clients reach by these names and addresses.

    \b
      kwire certs broker localhost 127.0.0.1
    """
    called = name or hosts[0]
    _tell(_made(folder, called, lambda by: by.broker(called, hosts, days, p12=p12)))


@command.command("client")
@click.argument("name")
@making_options
def client(name: str, folder: Path, days: int, p12: bool) -> None:
    """Create a keystore of a client, whose principal is `User:CN=NAME`.

    \b
      kwire certs client alice
    """
    _tell(_made(folder, name, lambda by: by.client(name, days, p12=p12)))


@command.command("list")
@folder_option
@json_option
def listed(folder: Path, as_json: bool) -> None:
    """List the certificates, and when they expire.

    \b
      kwire certs list --dir kwire-certs
    """
    from kwire.security.tls.making import certificates_in

    rows = []
    for path in sorted(folder.glob("*.pem")):
        if path.name == "ca-key.pem":
            continue
        own = certificates_in(path)[0]
        rows.append((path.name, own.subject.rfc4514_string(), own.not_valid_after_utc))
    if as_json:
        print_json(
            [{"file": name, "subject": who, "until": end.isoformat()} for name, who, end in rows]
        )
        return
    now = datetime.datetime.now(datetime.UTC)
    shown = [(name, who, f"{end:%Y-%m-%d}", str((end - now).days)) for name, who, end in rows]
    print_table(("file", "subject", "until", "days left"), shown)


def _made(folder: Path, name: str, make: Callable[[DevelopmentAuthority], Issued]) -> Issued:
    """Makes a certificate with the authority in `folder`, and returns it.  Refuses names that would
    leave the folder or overwrite the authority's files; exits with a failure if `make` fails."""
    from kwire.security.tls.making import DevelopmentAuthority

    if not name or "/" in name or name.startswith(".") or name in ("ca", "ca-key"):
        raise click.UsageError(f"{name!r} cannot be used as a file name: give another --name")
    try:
        return make(DevelopmentAuthority(folder))
    except (OSError, ValueError) as problem:
        say(f"kwire: {problem}")
        raise SystemExit(EXIT_FAILURE) from problem


def _tell(issued: Issued) -> None:
    keystore = issued.keystore
    say(f"{keystore}: the private key and its certificate")
    say(f"{keystore.with_name(keystore.stem + '.properties')}: the settings that use it")
