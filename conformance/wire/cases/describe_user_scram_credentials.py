"""Cases of DescribeUserScramCredentials: users with and without credentials, and duplicates."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)


def access_request(version: int, topic_id: bytes) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest([UserName("nobody-there")])


def of(*users: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest([UserName(user) for user in users])


case.requests(
    {
        "one who has none": lambda stage: of(stage.name("nobody")),
        "one without a name": lambda stage: of(""),
        "one twice": lambda stage: of(stage.name("nobody"), stage.name("nobody")),
    }
)
