"""AlterUserScramCredentials (key 51): v0 (KIP-554).

Behaviour
- Sets and deletes credentials, one per user and request: DUPLICATE_RESOURCE for a user that stands
  more than once.
- The client sends a salted password.  The broker derives two keys from it and does not store it.
- RESOURCE_NOT_FOUND for the deletion of a missing credential, UNSUPPORTED_SASL_MECHANISM for
  another mechanism.  UNACCEPTABLE_CREDENTIAL for an empty user name, for less than 4,096 or more
  than 16,384 iterations, and for an empty salted password (Apache Kafka fails with
  UNKNOWN_SERVER_ERROR).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.decisions.scram_changes import CredentialDeletion, CredentialUpsertion, by_user
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

log = logging.getLogger("kwire.users")

ROUTE = Route(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    0,
    0,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    by_controller=True,
)


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    """Delete and set SCRAM credentials as one commit, and return one result per user."""
    changes = by_user(_credential_changes(request))
    outcomes = [DecisionOutcome(change.decide) for change in changes]
    refusal = await commit_for_client(
        broker.membership, outcomes, log, "Cannot change SCRAM credentials"
    )
    return AlterUserScramCredentialsResponse(
        results=[
            _result(change.user, refusal or outcome.refusal)
            for change, outcome in zip(changes, outcomes, strict=True)
        ]
    )


def _credential_changes(
    request: AlterUserScramCredentialsRequest,
) -> Iterator[tuple[str, CredentialDeletion | CredentialUpsertion]]:
    """Yield the user and the change of each deletion, then of each upsertion."""
    for deletion in request.deletions:
        yield deletion.name, CredentialDeletion(deletion.mechanism)
    for upsertion in request.upsertions:
        salt, salted_password = bytes(upsertion.salt), bytes(upsertion.salted_password)
        yield (
            upsertion.name,
            CredentialUpsertion(upsertion.mechanism, upsertion.iterations, salt, salted_password),
        )


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    """Return the result of one user: no error, or the refusal."""
    if refusal is None:
        return AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(user, refusal.error, refusal.message)


# -- rights


def refuse(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, version: int, message: str
) -> AlterUserScramCredentialsResponse:
    """Return the response with `error` for each user of the request, once per user."""
    names = [
        *(deletion.name for deletion in request.deletions),
        *(upsertion.name for upsertion in request.upsertions),
    ]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user, error, message) for user in dict.fromkeys(names)
        ]
    )
