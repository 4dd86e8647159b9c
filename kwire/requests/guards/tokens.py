"""Guards of delegation tokens (KIP-373): create tokens for others, and see those of others.

Renewing a token needs no right: its owner and its renewers may do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.requests.token_requests import may_ask, owner_of, refused_creation

if TYPE_CHECKING:
    from kwire.codecs.messages.create_delegation_token import CreateDelegationTokenRequest
    from kwire.codecs.messages.describe_delegation_token import (
        DescribedDelegationToken,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )


def create_delegation_token(
    access: Access, request: CreateDelegationTokenRequest, proceed: Proceed
) -> Response:
    """Every principal may create a token for itself."""
    context = access.context
    owner = owner_of(request, context)
    if (
        owner == context.principal
        or not may_ask(access.broker.config, context)
        or access.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return proceed(request)
    return refused_creation(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, context)


def describe_delegation_token(
    access: Access, request: DescribeDelegationTokenRequest, proceed: Proceed
) -> Response:
    def visible(response: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        response.tokens = [token for token in response.tokens if _may_see(access, token)]
        return response

    return then(proceed(request), visible)


def _may_see(access: Access, described: DescribedDelegationToken) -> bool:
    token = access.broker.image.tokens[described.token_id]
    if token.concerns(access.context.principal):
        return True
    return access.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id) or access.may(
        AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )
