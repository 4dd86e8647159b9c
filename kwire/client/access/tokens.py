"""Delegation tokens (KIP-48, KIP-373): create, list, renew and expire them.

A client with a token logs in as the token's owner, without the owner's password.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse, check
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.codecs.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

BY_THE_BROKER: Final = -1
"""A period that the broker chooses; for an expiry, it means at once."""


class Token(NamedTuple):
    """A token.  Principals are `User:name`; times are milliseconds since 1970.

    `hmac` is the secret.  Whoever has it can log in as the owner.
    """

    id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """The SCRAM password of a client; the user name is the token's id."""
        return b64encode(self.hmac).decode()


def create_token(
    cluster: Cluster,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    lifetime_ms: int = BY_THE_BROKER,
) -> Token:
    """Create a token for `owner`, or for the caller if that is None.  Raises BrokerRefused."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(*_parts(renewer)) for renewer in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = _parts(owner)

    def ask() -> CreateDelegationTokenResponse:
        reply: CreateDelegationTokenResponse = cluster.controller().call(request)
        check(reply.error_code, "create a delegation token")
        return reply

    created = cluster.retrying(ask)
    return Token(
        created.token_id,
        bytes(created.hmac),
        f"{created.principal_type}:{created.principal_name}",
        f"{created.token_requester_principal_type}:{created.token_requester_principal_name}",
        tuple(renewers),
        created.issue_timestamp_ms,
        created.expiry_timestamp_ms,
        created.max_timestamp_ms,
    )


def describe_tokens(cluster: Cluster, owners: Sequence[str] = ()) -> list[Token]:
    """The tokens of these owners, or all, that the caller may see; the oldest first.

    Raises BrokerRefused.
    """
    owner_names = [DescribeDelegationTokenOwner(*_parts(owner)) for owner in owners] or None

    def ask() -> DescribeDelegationTokenResponse:
        """Sends the request once to any broker."""
        reply: DescribeDelegationTokenResponse = cluster.any().call(
            DescribeDelegationTokenRequest(owner_names)
        )
        check(reply.error_code, "describe delegation tokens")
        return reply

    tokens = map(_token, cluster.retrying(ask).tokens)
    return sorted(tokens, key=lambda token: (token.issue_ms, token.id))


def _token(token: DescribedDelegationToken) -> Token:
    """Converts a token of a response; principals become `TYPE:NAME`, times stay in ms."""
    return Token(
        token.token_id,
        bytes(token.hmac),
        f"{token.principal_type}:{token.principal_name}",
        f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def token_of(cluster: Cluster, token_id: str) -> Token:
    """The token with this id.  Raises Misuse if the caller sees none, and BrokerRefused."""
    for token in describe_tokens(cluster):
        if token.id == token_id:
            return token
    raise Misuse(f"you see no delegation token {token_id}: `kwire tokens list` shows all you see")


def renew_token(cluster: Cluster, token: Token, period_ms: int = BY_THE_BROKER) -> int:
    """Let a token expire `period_ms` from now; returns its expiry time.  Raises BrokerRefused."""

    def ask() -> RenewDelegationTokenResponse:
        """Sends the request once to the controller, which renews tokens."""
        reply: RenewDelegationTokenResponse = cluster.controller().call(
            RenewDelegationTokenRequest(token.hmac, period_ms)
        )
        check(reply.error_code, f"renew the delegation token {token.id}")
        return reply

    return cluster.retrying(ask).expiry_timestamp_ms


def expire_token(cluster: Cluster, token: Token, period_ms: int = BY_THE_BROKER) -> int:
    """Let a token expire after `period_ms`, by default at once.

    Returns its new expiry time.  Raises BrokerRefused.
    """

    def ask() -> ExpireDelegationTokenResponse:
        """Sends the request once to the controller, which expires tokens."""
        reply: ExpireDelegationTokenResponse = cluster.controller().call(
            ExpireDelegationTokenRequest(token.hmac, period_ms)
        )
        check(reply.error_code, f"expire the delegation token {token.id}")
        return reply

    return cluster.retrying(ask).expiry_timestamp_ms


def _parts(principal: str) -> tuple[str, str]:
    """The type and name of `User:name`."""
    kind, _, name = principal.partition(":")
    return kind, name
