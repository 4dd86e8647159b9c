"""CreateDelegationToken (key 38): v1-3 (KIP-48, KIP-373).

Behaviour
- A token for its sender, or for another owner (whoever may CREATE_TOKENS of that user: see
  kwire.requests.guards.tokens), with those who may renew it; they are users, else
  INVALID_PRINCIPAL_TYPE, which is also said of an owner of no type (Apache Kafka fails there with
  UNKNOWN_SERVER_ERROR).
- It lives for `max_lifetime_ms`, and `delegation.token.max.lifetime.ms` at most; it expires after
  `delegation.token.expiry.time.ms` unless it is renewed.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who is not known, or is by a token only;
  DELEGATION_TOKEN_AUTH_DISABLED where the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible, v3 has the owner, and tells of the requester.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import Outcome
from kwire.cluster.decisions.token_changes import Creation
from kwire.cluster.membership.committing import commit_for_client
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.requests.context import Context
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


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse | Awaitable[CreateDelegationTokenResponse]:
    owner = owner_of(request, context)
    if not may_ask(broker.config, context):
        return refused_creation(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, context)
    is_nobodys_kind = request.owner_principal_name and request.owner_principal_type is None
    if is_nobodys_kind or any(each.principal_type != _USER for each in request.renewers):
        return refused_creation(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, context)
    if broker.tokens is None:
        return creation(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, context)
    wanted = Creation.of(
        uuid_text(random_uuid(os.urandom)),
        owner,
        context.principal,
        tuple(f"{_USER}:{each.principal_name}" for each in request.renewers),
        request.max_lifetime_ms,
        lifetimes_of(broker.config),
        broker.now_ms(),
    )
    return _create(broker, broker.tokens, wanted, context)


async def _create(
    broker: Broker, book: TokenBook, wanted: Creation, context: Context
) -> CreateDelegationTokenResponse:
    token = wanted.token
    response = creation(ErrorCode.NONE, token.owner, context)
    outcome = Outcome(wanted.decide)
    refusal = await commit_for_client(
        broker.membership, [outcome], log, "no delegation token is made"
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
