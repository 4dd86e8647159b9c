"""Cases of CreateDelegationToken on a listener without authentication."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.conformance.access.requests import OWNER
from kwire.conformance.wire.case import Cases, MakeRequest

case = Cases(ApiKey.CREATE_DELEGATION_TOKEN)


def access_request(version: int, topic_id: bytes) -> CreateDelegationTokenRequest:
    """Request a token for another owner where the version allows it, with an unusable renewer."""
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("Role", "x")])
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = "User", OWNER
    return request


def _of(*renewers: tuple[str, str], life_ms: int = -1) -> MakeRequest:
    listed = [CreatableRenewers(*each) for each in renewers]
    return lambda stage: CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=life_ms)


case.requests(
    {
        "one": _of(),
        "with renewers": _of(("User", "alice"), ("User", ""), ("User", "alice")),
        "with another kind of renewer": _of(("Role", "x"), ("", "")),
        "of a short life": _of(life_ms=1),
    }
)
case.requests(
    {
        "for somebody else": lambda stage: CreateDelegationTokenRequest("User", "alice"),
        "for an empty name": lambda stage: CreateDelegationTokenRequest(None, ""),
        "for nobody": lambda stage: CreateDelegationTokenRequest(None, None),
    },
    since=3,
)
