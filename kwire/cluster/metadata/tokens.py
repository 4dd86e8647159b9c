"""Delegation tokens (KIP-48), as the metadata keeps them.

The metadata does not keep the HMAC with which a client logs in: it is computed from the token's id
and the secret `delegation.token.secret.key`, which all brokers have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with which clients can act as `owner`; all times are ms since the epoch.

    `owner`, `requester` and `renewers` are principals, such as `User:alice`.  The token is valid
    until `expiry_ms`, which its owner and renewers can extend up to `max_ms`.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def has_expired(self, now_ms: int) -> bool:
        return now_ms > min(self.max_ms, self.expiry_ms)

    def may_renew(self, principal: str) -> bool:
        """Whether the principal may renew or expire the token.  The requester alone may not."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether the principal may describe the token without any other right."""
        return principal == self.requester or self.may_renew(principal)


Tokens = Mapping[str, DelegationToken | None]
"""Delegation tokens by their ids; None for those that were removed."""
