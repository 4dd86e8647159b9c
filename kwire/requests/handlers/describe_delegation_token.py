"""DescribeDelegationToken (key 41): v1-3 (KIP-48, KIP-373).

Behaviour
- The tokens that concern the owners that are named (as owner, requester or renewer), all where
  that is null, none where it is empty.  Of them the sender sees those that concern it, and those
  that it has a right to see (kwire.requests.guards.tokens), also those that have expired, until
  they are removed.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who is not known, or is by a token only;
  DELEGATION_TOKEN_AUTH_DISABLED where the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible, v3 tells of the requester.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.requests.context import Context
from kwire.requests.token_requests import REQUESTER_SINCE, may_ask, parts
from kwire.security.tokens import TokenBook


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    if not may_ask(broker.config, context):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if broker.tokens is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    return DescribeDelegationTokenResponse(
        ErrorCode.NONE,
        [
            _described(token, broker.tokens, context.api_version)
            for token in broker.image.tokens.values()
            if owners is None or any(map(token.concerns, owners))
        ],
    )


def _described(token: DelegationToken, book: TokenBook, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        *parts(token.owner),
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=book.hmac_of(token.id),
        renewers=[DescribedDelegationTokenRenewer(*parts(each)) for each in token.renewers],
    )
    if version >= REQUESTER_SINCE:
        kind, name = parts(token.requester)
        described.token_requester_principal_type = kind
        described.token_requester_principal_name = name
    return described
