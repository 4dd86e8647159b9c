"""CreateDelegationToken (key 38): v1-3 (KIP-48, KIP-373).

Behaviour
- Creates a token for the sender, or for another owner if the sender has the right CREATE_TOKENS on
  that user (`guard`).  The request names the renewers.  A renewer that is not
  a user gives INVALID_PRINCIPAL_TYPE; so does an owner without a type, on which Apache Kafka fails
  with UNKNOWN_SERVER_ERROR.
- The token's maximum lifetime is `max_lifetime_ms`, but at most
  `delegation.token.max.lifetime.ms`.  Unless it is renewed it expires after
  `delegation.token.expiry.time.ms`.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the sender is not authenticated, or with a token only.
  DELEGATION_TOKEN_AUTH_DISABLED if the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible; v3 has the owner, and the requester in the response.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.decisions.token_changes import TokenCreation
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.route import Right, Route
from kwire.requests.routes import Handled, Send
from kwire.requests.token_requests import (
    creation,
    lifetimes_of,
    may_ask,
    owner_of,
    refused_creation,
)
from kwire.security.tokens import TokenBook

log = logging.getLogger("kwire.tokens")

_USER = "User"

ROUTE = Route(
    ApiKey.CREATE_DELEGATION_TOKEN,
    1,
    3,
    Right(AclOperation.CREATE_TOKENS, ResourceType.USER),
    by_controller=True,
)


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse | Awaitable[CreateDelegationTokenResponse]:
    """Create a delegation token for the sender, or for the owner that the request names."""
    owner = owner_of(request, context)
    if not may_ask(broker.config, context):
        return refused_creation(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, context)
    if _names_no_user(request):
        return refused_creation(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, context)
    if broker.tokens is None:
        return creation(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, context)
    new_token = TokenCreation.of(
        uuid_text(random_uuid(os.urandom)),
        owner,
        context.principal,
        tuple(f"{_USER}:{renewer.principal_name}" for renewer in request.renewers),
        request.max_lifetime_ms,
        lifetimes_of(broker.config),
        broker.now_ms(),
    )
    return _create(broker, broker.tokens, new_token, context)


def forward(
    broker: Broker, request: CreateDelegationTokenRequest, context: Context, send: Send
) -> Handled:
    """Return the controllers' response, if the sender may create the token at all.

    The broker checks this itself: only it knows how the sender has authenticated.
    """
    if not may_ask(broker.config, context):
        owner = owner_of(request, context)
        return refused_creation(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, context)

    def send_if_clear(request: CreateDelegationTokenRequest) -> Handled:
        if _names_no_user(request):
            owner = owner_of(request, context)
            return refused_creation(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, context)
        return send(request)

    if broker.authorizer is None:
        return send_if_clear(request)
    return guard(Access(broker, broker.authorizer, context), request, send_if_clear)


def _names_no_user(request: CreateDelegationTokenRequest) -> bool:
    """Whether the owner has no type, or a renewer is no user."""
    has_no_type = bool(request.owner_principal_name) and request.owner_principal_type is None
    return has_no_type or any(each.principal_type != _USER for each in request.renewers)


async def _create(
    broker: Broker, book: TokenBook, new_token: TokenCreation, context: Context
) -> CreateDelegationTokenResponse:
    """Store the new token, and return the response with its id, times in ms, and HMAC."""
    token = new_token.token
    response = creation(ErrorCode.NONE, token.owner, context)
    outcome = DecisionOutcome(new_token.decide)
    refusal = await commit_for_client(
        broker.membership, [outcome], log, "Cannot create a delegation token"
    )
    if refusal is not None:
        response.error_code = refusal.error
        return response
    response.issue_timestamp_ms = token.issue_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.id
    response.hmac = book.hmac_of(token.id)
    return response


# -- rights


def guard(access: Access, request: CreateDelegationTokenRequest, proceed: Proceed) -> Response:
    """Require CREATE_TOKENS on the owner, unless the sender itself will own the token.

    The handler refuses a sender that may not manage tokens at all.
    """
    context = access.context
    owner = owner_of(request, context)
    if (
        owner == context.principal
        or not may_ask(access.broker.config, context)
        or access.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return proceed(request)
    return refused_creation(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, context)
