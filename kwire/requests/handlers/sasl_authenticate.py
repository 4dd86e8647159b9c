"""SaslAuthenticate (key 36): v0-2.

Behaviour
- The client has authenticated already, or the listener needs no authentication: ILLEGAL_SASL_STATE.
- kwire.server.network.authenticator handles authentication and re-authentication on SASL listeners.

Version notes: v1 has the session's lifetime (KIP-368), v2 is flexible.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route

_MESSAGE = "SaslAuthenticate request received after successful authentication"

ROUTE = Route(ApiKey.SASL_AUTHENTICATE, 0, 2, NOTHING)


def handle(
    broker: Broker, request: SaslAuthenticateRequest, context: Context
) -> SaslAuthenticateResponse:
    """Refuse the request: authentication is over when a handler gets it."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_MESSAGE)
