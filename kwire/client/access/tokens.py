"""Delegation tokens (KIP-48, KIP-373): by these somebody logs in who has no password."""

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
"""A time that the broker chooses; of an expiry: at once."""


class Token(NamedTuple):
    """A token; principals are `User:name`, times milliseconds since 1970.

    `hmac` is its secret: who has it logs in as the owner.
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
        """What a client gives with the id as user, by SCRAM."""
        return b64encode(self.hmac).decode()


def create_token(
    cluster: Cluster,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    lifetime_ms: int = BY_THE_BROKER,
) -> Token:
    """A token of the owner's, of whoever asks where nobody is named.  Raises BrokerRefused."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(*_parts(each)) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = _parts(owner)

    def ask() -> CreateDelegationTokenResponse:
        reply: CreateDelegationTokenResponse = cluster.controller().call(request)
        check(reply.error_code, "create a delegation token")
        return reply

    made = cluster.retrying(ask)
    return Token(
        made.token_id,
        bytes(made.hmac),
        f"{made.principal_type}:{made.principal_name}",
        f"{made.token_requester_principal_type}:{made.token_requester_principal_name}",
        tuple(renewers),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


def describe_tokens(cluster: Cluster, owners: Sequence[str] = ()) -> list[Token]:
    """Those of these owners, or all, that whoever asks may see; the oldest first.

    Raises BrokerRefused.
    """
    wanted = [DescribeDelegationTokenOwner(*_parts(each)) for each in owners] or None

    def ask() -> DescribeDelegationTokenResponse:
        reply: DescribeDelegationTokenResponse = cluster.any().call(
            DescribeDelegationTokenRequest(wanted)
        )
        check(reply.error_code, "describe delegation tokens")
        return reply

    found = map(_described, cluster.retrying(ask).tokens)
    return sorted(found, key=lambda token: (token.issue_ms, token.id))


def _described(told: DescribedDelegationToken) -> Token:
    return Token(
        told.token_id,
        bytes(told.hmac),
        f"{told.principal_type}:{told.principal_name}",
        f"{told.token_requester_principal_type}:{told.token_requester_principal_name}",
        tuple(f"{each.principal_type}:{each.principal_name}" for each in told.renewers),
        told.issue_timestamp,
        told.expiry_timestamp,
        told.max_timestamp,
    )


def token_of(cluster: Cluster, token_id: str) -> Token:
    """Raises Misuse where whoever asks sees no token of that id, and BrokerRefused."""
    for token in describe_tokens(cluster):
        if token.id == token_id:
            return token
    raise Misuse(f"you see no delegation token {token_id}: `kwire tokens list` shows all you see")


def renew_token(cluster: Cluster, token: Token, period_ms: int = BY_THE_BROKER) -> int:
    """Have it hold for so long from now on; when it expires then.  Raises BrokerRefused."""

    def ask() -> RenewDelegationTokenResponse:
        reply: RenewDelegationTokenResponse = cluster.controller().call(
            RenewDelegationTokenRequest(token.hmac, period_ms)
        )
        check(reply.error_code, f"renew the delegation token {token.id}")
        return reply

    return cluster.retrying(ask).expiry_timestamp_ms


def expire_token(cluster: Cluster, token: Token, period_ms: int = BY_THE_BROKER) -> int:
    """Have it end after that time, or at once; when that is.  Raises BrokerRefused."""

    def ask() -> ExpireDelegationTokenResponse:
        reply: ExpireDelegationTokenResponse = cluster.controller().call(
            ExpireDelegationTokenRequest(token.hmac, period_ms)
        )
        check(reply.error_code, f"have the delegation token {token.id} end")
        return reply

    return cluster.retrying(ask).expiry_timestamp_ms


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
