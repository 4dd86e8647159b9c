"""Cases of RenewDelegationToken on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.RENEW_DELEGATION_TOKEN)


def access_request(version: int, topic_id: bytes) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(b"no such", -1)


case.requests(
    {
        "an unknown one": lambda stage: RenewDelegationTokenRequest(b"hmac", 1000),
        "without an hmac": lambda stage: RenewDelegationTokenRequest(b"", -1),
    }
)
