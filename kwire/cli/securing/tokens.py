"""`kwire tokens`: creates, lists, renews and expires delegation tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import json_option, print_json, print_table, say
from kwire.cli.values import duration_s, iso_time, named_principal

if TYPE_CHECKING:
    from kwire.client.access.tokens import Token
    from kwire.client.cluster import Cluster

LISTING = Listing(
    90,
    "Create, list, renew and expire delegation tokens.",
    "create, list, renew and expire delegation tokens, with which jobs log in without a password",
)

C = TypeVar("C", bound=Callable[..., Any])

TRUSTED = "ssl.truststore.location"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@click.group("tokens", cls=Commands)
def command() -> None:
    """Create, list, renew and expire delegation tokens.

    A client with a token can log in as its owner by SCRAM until the token expires, so jobs on many
    machines need no password.  The owner and the renewers can renew a token up to its maximum
    lifetime.  To use these commands, log in (--command-config) without a token.

    \b
      kwire tokens create --renewer User:scheduler > token.properties
      kwire tokens list
      kwire tokens renew tPFXXsb9QtGYiPTRIW0uZg --for 12h
      kwire tokens expire tPFXXsb9QtGYiPTRIW0uZg
    """


def _period_option(*names: str, words: str) -> Callable[[C], C]:
    return click.option(*names, "period_s", type=duration_s, metavar="DURATION", help=words)


def _period_ms(period_s: float | None) -> int:
    from kwire.client.access.tokens import BY_THE_BROKER

    return BY_THE_BROKER if period_s is None else int(period_s * 1000)


@command.command("create")
@click.option(
    "--owner", type=named_principal, metavar="User:NAME",
    help="Owner of the token. Default: you. Needs the right CREATE_TOKENS on that user.",
)  # fmt: skip
@click.option(
    "--renewer", "renewers", type=named_principal, metavar="User:NAME", multiple=True,
    help="User who may renew and expire it, besides the owner.",
)  # fmt: skip
@_period_option(
    "--max-life", words="Longest lifetime with renewals. Default and maximum:"
    " delegation.token.max.lifetime.ms of the broker.",
)  # fmt: skip
@click.option(
    "-m", "--mechanism", type=click.Choice(MECHANISMS, case_sensitive=False),
    default=MECHANISMS[0], show_default=True, help="SASL mechanism of the printed properties.",
)  # fmt: skip
@json_option
@connected
def create_command(
    cluster: Cluster,
    owner: str | None,
    renewers: tuple[str, ...],
    period_s: float | None,
    mechanism: str,
    as_json: bool,
) -> None:
    """Create a token, and print client properties that log in with it.

    The properties are complete (bootstrap servers, truststore, login), so that
    `kwire topics list --command-config FILE` works with them.  They hold the secret of the token,
    which no other command shows.  Messages go to standard error.
    """
    from kwire.client.access.tokens import create_token
    from kwire.security.tls.making import properties_text

    token = create_token(cluster, owner=owner, renewers=renewers, lifetime_ms=_period_ms(period_s))
    if as_json:
        print_json(_shown(token) | {"password": token.password})
    else:
        click.echo(properties_text(_login(cluster, token, mechanism)), nl=False)
    say(
        f"token {token.id} of {token.owner} expires at {iso_time(token.expiry_ms)}, with renewals"
        f" at {iso_time(token.max_ms)}"
    )


OF_THE_OWNER = ("ssl.keystore.", "ssl.key.")
"""Properties of the certificate of the user who creates the token, which a user of it lacks."""


def _login(cluster: Cluster, token: Token, mechanism: str) -> dict[str, str]:
    """Complete client properties: those of this command, with the token as the login."""
    own = {} if cluster.security is None else cluster.security.properties
    reached = {
        name: str(Path(value).absolute()) if name == TRUSTED else value
        for name, value in own.items()
        if name.startswith("ssl.") and not name.startswith(OF_THE_OWNER)
    }
    protocol = "PLAINTEXT" if cluster.security is None else cluster.security.protocol
    where = {"bootstrap.servers": cluster.bootstrap_text}
    if not protocol.startswith("SASL_"):
        # The user logged in by a certificate.  A token needs a listener with SASL, whose address
        # is not known here.
        protocol, where = f"SASL_{protocol}", {}
        say(
            f"security.protocol is {protocol}, since a token needs SASL; bootstrap.servers is left"
            " out: add the address of a listener with SASL"
        )
    return {
        **where,
        "security.protocol": protocol,
        **reached,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{_MODULE} required tokenauth="true"'
            f' username="{token.id}" password="{token.password}";'
        ),
    }


@command.command("list")
@click.argument("owners", metavar="User:NAME...", type=named_principal, nargs=-1)
@json_option
@connected
def list_command(cluster: Cluster, owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that you may see, or those of some owners, without their secrets."""
    from kwire.client.access.tokens import describe_tokens

    found = describe_tokens(cluster, owners)
    if as_json:
        print_json([_shown(token) for token in found])
        return
    print_table(COLUMNS, [_row(token) for token in found])


COLUMNS = ("token", "owner", "requester", "renewers", "issued", "expires", "ends")


def _row(token: Token) -> Sequence[str]:
    """Return the row of a token in the table of tokens."""
    return (
        token.id,
        token.owner,
        token.requester,
        ",".join(token.renewers) or "-",
        *map(iso_time, (token.issue_ms, token.expiry_ms, token.max_ms)),
    )


def _shown(token: Token) -> dict[str, Any]:
    shown = dict(zip(COLUMNS, _row(token), strict=True))
    return shown | {"renewers": list(token.renewers)}


@command.command("renew")
@click.argument("token_id", metavar="TOKEN")
@_period_option(
    "--for", words="How long it is valid from now on. Default and maximum:"
    " delegation.token.expiry.time.ms of the broker.",
)  # fmt: skip
@connected
def renew_command(cluster: Cluster, token_id: str, period_s: float | None) -> None:
    """Renew a token, as its owner or one of its renewers."""
    from kwire.client.access.tokens import renew_token, token_of

    expiry_ms = renew_token(cluster, token_of(cluster, token_id), _period_ms(period_s))
    say(f"token {token_id} expires at {iso_time(expiry_ms)}")


@command.command("expire")
@click.argument("token_id", metavar="TOKEN")
@_period_option("--in", words="Expire it after this time. Default: at once.")
@connected
def expire_command(cluster: Cluster, token_id: str, period_s: float | None) -> None:
    """Expire a token, as its owner or one of its renewers.

    Existing connections stay logged in until they log in again (connections.max.reauth.ms).
    """
    from kwire.client.access.tokens import expire_token, token_of

    token = token_of(cluster, token_id)
    expiry_ms = expire_token(cluster, token, _period_ms(period_s))
    if period_s is None:
        say(f"token {token_id} expired")
    else:
        say(f"token {token_id} expires at {iso_time(expiry_ms)}")
