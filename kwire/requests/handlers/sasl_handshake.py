"""SaslHandshake (key 17): v0-1.

Behaviour
- The client has authenticated already, or the listener needs no authentication: ILLEGAL_SASL_STATE,
  and no mechanisms.
- kwire.server.network.authenticator handles authentication and re-authentication on SASL listeners.

Version notes: v1 has tokens in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.requests.context import Context
from kwire.requests.route import NOTHING, Route

ROUTE = Route(ApiKey.SASL_HANDSHAKE, 0, 1, NOTHING)


def handle(
    broker: Broker, request: SaslHandshakeRequest, context: Context
) -> SaslHandshakeResponse:
    """Refuse the request: authentication is over when a handler gets it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
