"""SaslHandshake (key 17): v0-1.

Behaviour
- Who gets here is logged in, or need not be: ILLEGAL_SASL_STATE, and no mechanisms.
- A login on a SASL listener, and the renewal of one that ends, are
  kwire.server.network.authentication's.

Version notes: v1 has tokens in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.requests.context import Context


def handle(
    broker: Broker, request: SaslHandshakeRequest, context: Context
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
