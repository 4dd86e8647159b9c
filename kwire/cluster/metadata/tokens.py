"""Delegation tokens (KIP-48): what the metadata keeps of one.

Its HMAC, by which somebody logs in, is none of that: it is made anew of the id and of the secret
that the brokers have in `delegation.token.secret.key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Who may be taken for `owner`, and until when; all times are ms since the epoch.

    `owner`, `requester` and `renewers` are principals, `User:alice`.  The token holds until
    `expiry_ms`, which owner and renewers may put off up to `max_ms`.
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
        """Also who may have it expire.  Who asked for it for somebody else is not among them."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether it is told of the token without any right."""
        return principal == self.requester or self.may_renew(principal)


Tokens = Mapping[str, DelegationToken | None]
"""By id; None for those that are gone."""
