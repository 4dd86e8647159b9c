"""What requests about delegation tokens have in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kwire.cluster.decisions.outcome import Outcome
from kwire.cluster.decisions.token_changes import Expiry, Lifetimes, Renewal
from kwire.cluster.membership.committing import commit_for_client
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.requests.context import ANONYMOUS

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.context import Context
    from kwire.settings import BrokerConfig

ERROR_TIMESTAMP_MS: Final = -1
"""When a token that there is not expires."""
REQUESTER_SINCE: Final = 3
"""The version from which on answers tell who asked for a token."""

log = logging.getLogger("kwire.tokens")


def may_ask(config: BrokerConfig, context: Context) -> bool:
    """Not who is known by a token only, nor who is not known at all."""
    protocols = {each.listener: each.security_protocol for each in config.listeners}
    protocol = protocols[context.listener]
    if context.by_token or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or context.principal != ANONYMOUS


def lifetimes_of(config: BrokerConfig) -> Lifetimes:
    return Lifetimes(
        config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    )


def owner_of(request: CreateDelegationTokenRequest, context: Context) -> str:
    """Whose token it is to be: its sender's where nobody is named."""
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def refused_creation(
    error: ErrorCode, owner: str, context: Context
) -> CreateDelegationTokenResponse:
    """The answer to who gets no token from the broker; Kafka's controller tells no times."""
    response = creation(error, owner, context)
    response.issue_timestamp_ms = ERROR_TIMESTAMP_MS
    response.expiry_timestamp_ms = response.max_timestamp_ms = ERROR_TIMESTAMP_MS
    return response


def creation(error: ErrorCode, owner: str, context: Context) -> CreateDelegationTokenResponse:
    """Whose token it was to be, and who asked for it."""
    response = CreateDelegationTokenResponse(error, *parts(owner))
    if context.api_version >= REQUESTER_SINCE:
        kind, name = parts(context.principal)
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


def parts(principal: str) -> tuple[str, str]:
    """`User:alice` as a type and a name."""
    kind, _, name = principal.partition(":")
    return kind, name


async def new_expiry(
    broker: Broker, decision: Renewal | Expiry, failure: str
) -> tuple[ErrorCode, int]:
    """Have a token end at another time, and tell when: now, where it is removed.

    `failure` is what the log says where it cannot be.
    """
    outcome = Outcome(decision.decide)
    failed = await commit_for_client(broker.membership, [outcome], log, failure)
    refusal = outcome.refusal or failed
    if refusal is not None:
        return refusal.error, 0
    if outcome.change is None or outcome.change.token is None:
        return ErrorCode.NONE, decision.now_ms
    return ErrorCode.NONE, outcome.change.token.expiry_ms
