"""DescribeDelegationToken (key 41): v1-3 (KIP-48, KIP-373).

Behaviour
- The response has the tokens whose owner, requester or renewer is one of the requested owners; all
  tokens for a null list, none for an empty one.  The sender sees those that it owns, requested or
  may renew, and those that it has a right to see (`guard`).
- Expired tokens are in the response until they are removed.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the sender is not authenticated, or with a token only.
  DELEGATION_TOKEN_AUTH_DISABLED if the broker has no `delegation.token.secret.key`.

Version notes: v2 is flexible; v3 has the requester.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.requests.token_requests import REQUESTER_SINCE, may_ask, parts
from kwire.security.tokens import TokenBook

ROUTE = Route(
    ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, Right(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
)


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """Return the tokens of the requested owners, or all tokens for a null list.

    `guard` removes those that the sender may not see.
    """
    if not may_ask(broker.config, context):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if broker.tokens is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        ErrorCode.NONE,
        [
            _described(token, broker.tokens, context.api_version)
            for token in broker.image.tokens.values()
            if owners is None or any(map(token.concerns, owners))
        ],
    )


def _described(token: DelegationToken, book: TokenBook, version: int) -> DescribedDelegationToken:
    """Return one token as the response has it, with its HMAC; the requester from version 3."""
    described = DescribedDelegationToken(
        *parts(token.owner),
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=book.hmac_of(token.id),
        renewers=[DescribedDelegationTokenRenewer(*parts(renewer)) for renewer in token.renewers],
    )
    if version >= REQUESTER_SINCE:
        kind, name = parts(token.requester)
        described.token_requester_principal_type = kind
        described.token_requester_principal_name = name
    return described


# -- rights


def guard(access: Access, request: DescribeDelegationTokenRequest, proceed: Proceed) -> Response:
    """Remove the tokens that the sender may not see from the response."""

    def visible(response: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        response.tokens = [token for token in response.tokens if _may_see(access, token)]
        return response

    return reshaped(proceed(request), visible)


def _may_see(access: Access, described: DescribedDelegationToken) -> bool:
    """Return whether the sender is related to the token, or has a right to describe it."""
    token = access.broker.image.tokens[described.token_id]
    if token.concerns(access.context.principal):
        return True
    return access.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id) or access.may(
        AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )
