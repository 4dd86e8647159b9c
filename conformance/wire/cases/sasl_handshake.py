"""Cases of SaslHandshake on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.SASL_HANDSHAKE)

case.requests(
    {
        "a mechanism": lambda stage: SaslHandshakeRequest("PLAIN"),
        "none": lambda stage: SaslHandshakeRequest(""),
        "one that nobody knows": lambda stage: SaslHandshakeRequest("NOPE"),
    }
)
