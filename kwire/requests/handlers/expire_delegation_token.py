"""ExpireDelegationToken (key 40): v1-2 (KIP-48).

Behaviour
- Lets a token expire in `expiry_time_period_ms`, but not after its maximum lifetime.  A negative
  period removes it at once.  Only its owner and its renewers may do that.
- Order of the checks: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH for any other
  sender, even a super user, DELEGATION_TOKEN_EXPIRED for a token that is expired but not removed.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the sender is not authenticated, or with a token only.
  DELEGATION_TOKEN_AUTH_DISABLED if the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.token_changes import TokenExpiry
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route
from kwire.requests.routes import Handled, Send
from kwire.requests.token_requests import ERROR_TIMESTAMP_MS, may_ask, new_expiry

ROUTE = Route(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, NOTHING, by_controller=True)


def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse | Awaitable[ExpireDelegationTokenResponse]:
    """Set when the token expires, or remove it; return the new time in ms."""
    if not may_ask(broker.config, context):
        return _not_allowed()
    if broker.tokens is None:
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id, now_ms = broker.tokens.id_of(bytes(request.hmac)), broker.now_ms()
    decision = TokenExpiry(token_id, context.principal, request.expiry_time_period_ms, now_ms)
    return _expire(broker, decision)


def forward(
    broker: Broker, request: ExpireDelegationTokenRequest, context: Context, send: Send
) -> Handled:
    """Return the controllers' response, unless the sender may not ask: only the broker knows."""
    return send(request) if may_ask(broker.config, context) else _not_allowed()


def _not_allowed() -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ERROR_TIMESTAMP_MS
    )


async def _expire(broker: Broker, decision: TokenExpiry) -> ExpireDelegationTokenResponse:
    """Store the decision, and return the response with the new expiry time in ms."""
    return ExpireDelegationTokenResponse(
        *await new_expiry(broker, decision, "Cannot expire a delegation token")
    )
