"""DescribeUserScramCredentials (key 50): v0 (KIP-554).

Behaviour
- The response has the mechanism and iterations of each user's credentials, never a salt or a key.
- A null or empty list stands for all users with credentials.
- RESOURCE_NOT_FOUND for a user without credentials, DUPLICATE_RESOURCE for one that stands twice.
"""

from __future__ import annotations

from collections import Counter

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.credentials import MECHANISMS, credentials_of, users_with_credentials
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.security.sasl.scram import Credential

_NONE = "Attempt to describe a user credential that does not exist: "
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "

ROUTE = Route(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, Right(AclOperation.DESCRIBE, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """Return the SCRAM mechanisms of each requested user, or of all users that have any."""
    image = broker.image
    if request.users:
        times = Counter(user.name for user in request.users)
    else:
        times = Counter(users_with_credentials(image))
    return DescribeUserScramCredentialsResponse(
        results=[_described(image, user, count) for user, count in times.items()],
    )


def _described(image: ClusterImage, user: str, times: int) -> DescribeUserScramCredentialsResult:
    """Return the mechanisms and iterations of one user, or the error.

    `times` is how often the request names the user; more than once is an error.
    """
    if times > 1:
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, _TWICE + user)
    credentials = credentials_of(image, user)
    if not credentials:
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, _NONE + user)
    infos = [
        CredentialInfo(number, Credential.parse(credentials[mechanism]).iterations)
        for number, mechanism in MECHANISMS.items()
        if mechanism in credentials
    ]
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)


# -- rights


def refuse(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode, version: int, message: str
) -> DescribeUserScramCredentialsResponse:
    """One result per requested user, without name and message, as in Kafka."""
    results = [
        DescribeUserScramCredentialsResult(error_code=error, error_message=None)
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(
        error_code=error, error_message=None, results=results
    )
