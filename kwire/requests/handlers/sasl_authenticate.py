"""SaslAuthenticate (key 36): v0-2.

Behaviour
- Who gets here is logged in, or need not be: ILLEGAL_SASL_STATE.
- A login on a SASL listener, and the renewal of one that ends, are
  kwire.server.network.authentication's.

Version notes: v1 has the session's lifetime (KIP-368), v2 is flexible.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.requests.context import Context

_TOLD = "SaslAuthenticate request received after successful authentication"


def handle(
    broker: Broker, request: SaslAuthenticateRequest, context: Context
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOLD)
