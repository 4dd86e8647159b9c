"""RenewDelegationToken (key 39): v1-2 (KIP-48).

Behaviour
- Renews a token: it expires after `renew_period_ms`, or `delegation.token.expiry.time.ms` if that
  is shorter, but not after its maximum lifetime.  Only its owner and its renewers may do that.
- Order of the checks: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED (also before the token
  is removed), DELEGATION_TOKEN_OWNER_MISMATCH for any other sender, even a super user.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the sender is not authenticated, or with a token only.
  DELEGATION_TOKEN_AUTH_DISABLED if the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.decisions.token_changes import TokenRenewal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route
from kwire.requests.routes import Handled, Send
from kwire.requests.token_requests import ERROR_TIMESTAMP_MS, lifetimes_of, may_ask, new_expiry

ROUTE = Route(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, NOTHING, by_controller=True)


def handle(
    broker: Broker, request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse | Awaitable[RenewDelegationTokenResponse]:
    """Renew the token, and return when it expires (in ms)."""
    if not may_ask(broker.config, context):
        return _not_allowed()
    if broker.tokens is None:
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token_id, now_ms = broker.tokens.id_of(bytes(request.hmac)), broker.now_ms()
    decision = TokenRenewal(
        token_id, context.principal, request.renew_period_ms, lifetimes_of(broker.config), now_ms
    )
    return _renew(broker, decision)


def forward(
    broker: Broker, request: RenewDelegationTokenRequest, context: Context, send: Send
) -> Handled:
    """Return the controllers' response, unless the sender may not ask: only the broker knows."""
    return send(request) if may_ask(broker.config, context) else _not_allowed()


def _not_allowed() -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ERROR_TIMESTAMP_MS
    )


async def _renew(broker: Broker, decision: TokenRenewal) -> RenewDelegationTokenResponse:
    """Store the decision, and return the response with the new expiry time in ms."""
    return RenewDelegationTokenResponse(
        *await new_expiry(broker, decision, "Cannot renew a delegation token")
    )
