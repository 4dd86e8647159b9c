"""Shared by the handlers of requests about delegation tokens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.decisions.token_changes import Lifetimes, TokenExpiry, TokenRenewal
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
"""The timestamps of a token that was not created."""
REQUESTER_SINCE: Final = 3
"""The first version whose responses have the requester of a token."""

log = logging.getLogger("kwire.tokens")


def may_ask(config: BrokerConfig, context: Context) -> bool:
    """Whether the sender may manage tokens: it is authenticated, and not with a token."""
    protocols = {endpoint.listener: endpoint.security_protocol for endpoint in config.listeners}
    protocol = protocols[context.listener]
    if context.by_token or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or context.principal != ANONYMOUS


def lifetimes_of(config: BrokerConfig) -> Lifetimes:
    """Return the broker's limits on the lifetime of tokens, in ms."""
    return Lifetimes(
        config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    )


def owner_of(request: CreateDelegationTokenRequest, context: Context) -> str:
    """The principal that will own the token: the requested owner, or the sender if none."""
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def refused_creation(
    error: ErrorCode, owner: str, context: Context
) -> CreateDelegationTokenResponse:
    """The response if the broker refuses a token.

    Its timestamps are -1.  If Kafka's controller refuses a token, they are 0: see `creation`.
    """
    response = creation(error, owner, context)
    response.issue_timestamp_ms = ERROR_TIMESTAMP_MS
    response.expiry_timestamp_ms = response.max_timestamp_ms = ERROR_TIMESTAMP_MS
    return response


def creation(error: ErrorCode, owner: str, context: Context) -> CreateDelegationTokenResponse:
    """A response with the owner and, if the version has it, the requester."""
    response = CreateDelegationTokenResponse(error, *parts(owner))
    if context.api_version >= REQUESTER_SINCE:
        kind, name = parts(context.principal)
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


def parts(principal: str) -> tuple[str, str]:
    """The type and the name of a principal such as `User:alice`."""
    kind, _, name = principal.partition(":")
    return kind, name


async def new_expiry(
    broker: Broker, decision: TokenRenewal | TokenExpiry, failure: str
) -> tuple[ErrorCode, int]:
    """Change when a token expires; return the error and the new time in ms.

    The time is that of the decision if the token is removed at once, and 0 with an error.
    `failure` begins the log message if the change cannot be stored.
    """
    outcome = DecisionOutcome(decision.decide)
    failed = await commit_for_client(broker.membership, [outcome], log, failure)
    refusal = outcome.refusal or failed
    if refusal is not None:
        return refusal.error, 0
    if outcome.change is None or outcome.change.token is None:
        return ErrorCode.NONE, decision.now_ms
    return ErrorCode.NONE, outcome.change.token.expiry_ms
