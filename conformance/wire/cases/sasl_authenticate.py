"""Cases of SaslAuthenticate on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.SASL_AUTHENTICATE)

case.requests(
    {
        "a token": lambda stage: SaslAuthenticateRequest(b"\0alice\0secret"),
        "none": lambda stage: SaslAuthenticateRequest(b""),
    }
)
