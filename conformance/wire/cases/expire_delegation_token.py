"""Cases of ExpireDelegationToken on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.EXPIRE_DELEGATION_TOKEN)


def access_request(version: int, topic_id: bytes) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(b"no such", -1)


case.requests(
    {
        "an unknown one": lambda stage: ExpireDelegationTokenRequest(b"hmac", 1000),
        "at once, without an hmac": lambda stage: ExpireDelegationTokenRequest(b"", -1),
    }
)
