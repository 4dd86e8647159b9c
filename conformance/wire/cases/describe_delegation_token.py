"""Cases of DescribeDelegationToken on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.DESCRIBE_DELEGATION_TOKEN)


def access_request(version: int, topic_id: bytes) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(None)


case.requests(
    {
        "all": lambda stage: DescribeDelegationTokenRequest(None),
        "of no owners": lambda stage: DescribeDelegationTokenRequest([]),
        "of one": lambda stage: DescribeDelegationTokenRequest(
            [DescribeDelegationTokenOwner("User", "alice")]
        ),
    }
)
