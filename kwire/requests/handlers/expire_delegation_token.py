"""ExpireDelegationToken (key 40): v1-2 (KIP-48).

Behaviour
- A token ends in `expiry_time_period_ms`, but not beyond its maximal life; below 0 it is removed at
  once.  Its owner and its renewers may ask for it.
- Told in this order: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH for somebody else,
  a super user too, DELEGATION_TOKEN_EXPIRED for one that is over but not removed yet.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who is not known, or is by a token only;
  DELEGATION_TOKEN_AUTH_DISABLED where the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.token_changes import Expiry
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.requests.context import Context
from kwire.requests.token_requests import ERROR_TIMESTAMP_MS, may_ask, new_expiry


def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse | Awaitable[ExpireDelegationTokenResponse]:
    if not may_ask(broker.config, context):
        return ExpireDelegationTokenResponse(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ERROR_TIMESTAMP_MS
        )
    if broker.tokens is None:
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id, now_ms = broker.tokens.id_of(bytes(request.hmac)), broker.now_ms()
    decision = Expiry(token_id, context.principal, request.expiry_time_period_ms, now_ms)
    return _expire(broker, decision)


async def _expire(broker: Broker, decision: Expiry) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        *await new_expiry(broker, decision, "a delegation token goes on")
    )
