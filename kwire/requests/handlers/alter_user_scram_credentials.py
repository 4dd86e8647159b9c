"""AlterUserScramCredentials (key 51): v0 (KIP-554).

Behaviour
- Sets and deletes credentials, one of a user in a request: DUPLICATE_RESOURCE for a user who is
  named more than once.
- The client sends a salted password, of which the broker keeps two keys and forgets the rest.
- RESOURCE_NOT_FOUND for a deletion of what is not there, UNSUPPORTED_SASL_MECHANISM for another
  mechanism, UNACCEPTABLE_CREDENTIAL for a nameless user, for less than 4,096 iterations or more
  than 16,384, and for an empty salted password (Apache Kafka fails there with
  UNKNOWN_SERVER_ERROR).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kwire.broker.broker import Broker
from kwire.cluster.decisions.outcome import Outcome
from kwire.cluster.decisions.scram_changes import Deletion, Upsertion, by_user
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.requests.context import Context

log = logging.getLogger("kwire.users")


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    changes = by_user(_asked(request))
    outcomes = [Outcome(change.decide) for change in changes]
    refusal = await commit_for_client(
        broker.membership, outcomes, log, "credentials are not changed"
    )
    return AlterUserScramCredentialsResponse(
        results=[
            _result(change.user, refusal or outcome.refusal)
            for change, outcome in zip(changes, outcomes, strict=True)
        ]
    )


def _asked(
    request: AlterUserScramCredentialsRequest,
) -> Iterator[tuple[str, Deletion | Upsertion]]:
    for deletion in request.deletions:
        yield deletion.name, Deletion(deletion.mechanism)
    for each in request.upsertions:
        salt, salted_password = bytes(each.salt), bytes(each.salted_password)
        yield each.name, Upsertion(each.mechanism, each.iterations, salt, salted_password)


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    if refusal is None:
        return AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(user, refusal.error, refusal.message)
