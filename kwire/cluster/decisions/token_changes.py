"""Changes of delegation tokens (KIP-48), as Apache Kafka's controller decides them.

Times are ms since the epoch, and at most the largest time of Kafka's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.errors import ErrorCode

END_OF_TIME_MS: Final = 2**63 - 1


def later(now_ms: int, period_ms: int) -> int:
    """The time after a period; at most END_OF_TIME_MS."""
    return min(now_ms + period_ms, END_OF_TIME_MS)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The settings `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    max_ms: int
    renewal_ms: int


@dataclass(frozen=True, slots=True)
class TokenCreation:
    """Creation of a token.  Its id is random, so no token with that id exists."""

    token: DelegationToken

    @classmethod
    def of(
        cls,
        token_id: str,
        owner: str,
        requester: str,
        renewers: tuple[str, ...],
        asked_ms: int,
        lifetimes: Lifetimes,
        now_ms: int,
    ) -> TokenCreation:
        """`asked_ms` is the longest life that the requester wants, or at most 0 for no limit."""
        life_ms = min(asked_ms, lifetimes.max_ms) if asked_ms > 0 else lifetimes.max_ms
        max_ms = later(now_ms, life_ms)
        expiry_ms = min(max_ms, later(now_ms, lifetimes.renewal_ms))
        return cls(DelegationToken(token_id, owner, requester, renewers, now_ms, max_ms, expiry_ms))

    def decide(self, image: ClusterImage) -> SetToken:
        return SetToken(self.token.id, None, self.token)


@dataclass(frozen=True, slots=True)
class TokenRenewal:
    """`principal` asks that a token be valid for `asked_ms` from now; 0 and below: the default."""

    token_id: str | None
    principal: str
    asked_ms: int
    lifetimes: Lifetimes
    now_ms: int

    def decide(self, image: ClusterImage) -> SetToken | None:
        """Return the change that moves the token's expiry time.

        The token never outlives its maximum lifetime.  Raises Refusal.
        """
        token = _existing_token(image, self.token_id)
        if token.has_expired(self.now_ms):
            raise Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_may_renew(token, self.principal)
        longest_ms = self.lifetimes.renewal_ms
        period_ms = min(self.asked_ms, longest_ms) if self.asked_ms > 0 else longest_ms
        return _expiring(token, min(token.max_ms, later(self.now_ms, period_ms)))


@dataclass(frozen=True, slots=True)
class TokenExpiry:
    """`principal` asks that a token expire in `asked_ms`; below 0 removes it at once."""

    token_id: str | None
    principal: str
    asked_ms: int
    now_ms: int

    def decide(self, image: ClusterImage) -> SetToken | None:
        """Return the change that removes the token or moves its expiry time.

        Raises Refusal.
        """
        token = _existing_token(image, self.token_id)
        _check_may_renew(token, self.principal)
        if self.asked_ms < 0:
            return SetToken(token.id, token, None)
        if token.has_expired(self.now_ms):
            raise Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return _expiring(token, min(token.max_ms, later(self.now_ms, self.asked_ms)))


@dataclass(frozen=True, slots=True)
class TokenRemoval:
    """A decision: remove a token that has expired, unless it was renewed in the meantime."""

    token_id: str
    now_ms: int

    def __call__(self, image: ClusterImage) -> SetToken | None:
        """Return the removal; None if the token is gone or has not expired."""
        token = image.tokens.get(self.token_id)
        if token is None or not token.has_expired(self.now_ms):
            return None
        return SetToken(token.id, token, None)


def token_removals(image: ClusterImage, now_ms: int) -> Iterator[TokenRemoval]:
    """A removal for each token that has expired."""
    for token_id, token in image.tokens.items():
        if token.has_expired(now_ms):
            yield TokenRemoval(token_id, now_ms)


def _existing_token(image: ClusterImage, token_id: str | None) -> DelegationToken:
    """Return the token.  Raises Refusal if it does not exist."""
    token = None if token_id is None else image.tokens.get(token_id)
    if token is None:
        raise Refusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_may_renew(token: DelegationToken, principal: str) -> None:
    if not token.may_renew(principal):
        raise Refusal(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(token: DelegationToken, expiry_ms: int) -> SetToken:
    return SetToken(token.id, token, replace(token, expiry_ms=expiry_ms))
