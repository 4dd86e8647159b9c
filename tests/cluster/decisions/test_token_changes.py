"""Changes of delegation tokens, with a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.decisions.token_changes import (
    END_OF_TIME_MS,
    Lifetimes,
    TokenCreation,
    TokenExpiry,
    TokenRemoval,
    TokenRenewal,
    token_removals,
)
from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.errors import ErrorCode

NOW_MS = 1_000_000
LIFETIMES = Lifetimes(max_ms=1000, renewal_ms=100)
TOKEN = DelegationToken("t", "User:a", "User:r", ("User:b",), NOW_MS, NOW_MS + 1000, NOW_MS + 100)
IMAGE = ClusterImage("c").with_token("t", TOKEN)
EMPTY = ClusterImage("c")
Decide = Callable[[ClusterImage], SetToken | None]


def created(asked_ms: int, now_ms: int = NOW_MS) -> DelegationToken:
    return TokenCreation.of("t", "User:a", "User:r", (), asked_ms, LIFETIMES, now_ms).token


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expiry_ms"),
    [(-1, 1000, 100), (0, 1000, 100), (2000, 1000, 100), (500, 500, 100), (50, 50, 50), (1, 1, 1)],
)
def test_new_token_lives_as_long_as_requested_and_allowed(
    asked_ms: int, max_ms: int, expiry_ms: int
) -> None:
    token = created(asked_ms)
    assert (token.issue_ms, token.max_ms, token.expiry_ms) == (
        NOW_MS,
        NOW_MS + max_ms,
        NOW_MS + expiry_ms,
    )
    assert TokenCreation(token).decide(EMPTY) == SetToken("t", None, token)


def renewed(asked_ms: int, by: str = "User:b", now_ms: int = NOW_MS + 50) -> int:
    change = TokenRenewal("t", by, asked_ms, LIFETIMES, now_ms).decide(IMAGE)
    assert change is not None
    assert change.token is not None
    assert (change.expected, replace(change.token, expiry_ms=TOKEN.expiry_ms)) == (TOKEN, TOKEN)
    return change.token.expiry_ms - NOW_MS


def test_renewal_extends_the_expiry_up_to_the_maximum() -> None:
    assert [renewed(asked_ms) for asked_ms in (-1, 0, 30, 5000)] == [150, 150, 80, 150]
    late = IMAGE.with_token("t", replace(TOKEN, expiry_ms=NOW_MS + 990))
    change = TokenRenewal("t", "User:a", -1, LIFETIMES, NOW_MS + 950).decide(late)
    assert change is not None
    assert change.token is not None
    assert change.token.expiry_ms == TOKEN.max_ms


@pytest.mark.parametrize(
    ("token_id", "principal", "now_ms", "renewal", "expiry"),
    [
        (None, "User:a", NOW_MS, 62, 62),
        ("other", "User:a", NOW_MS, 62, 62),
        ("t", "User:r", NOW_MS, 63, 63),
        ("t", "Role:a", NOW_MS, 63, 63),
        ("t", "User:a", NOW_MS + 101, 66, 66),
        ("t", "User:x", NOW_MS + 101, 66, 63),
        ("t", "User:a", NOW_MS + 100, 0, 0),
    ],
)
def test_renewal_and_expiry_refuse_other_principals_and_expired_tokens(
    token_id: str | None, principal: str, now_ms: int, renewal: int, expiry: int
) -> None:
    outcomes = []
    for decision in (
        TokenRenewal(token_id, principal, 10, LIFETIMES, now_ms),
        TokenExpiry(token_id, principal, 10, now_ms),
    ):
        try:
            decision.decide(IMAGE)
            outcomes.append(ErrorCode.NONE)
        except Refusal as refusal:
            outcomes.append(refusal.error)
    assert outcomes == [renewal, expiry]


def test_owner_sets_the_expiry_or_removes_the_token() -> None:
    def ended(asked_ms: int, now_ms: int = NOW_MS) -> SetToken | None:
        return TokenExpiry("t", "User:a", asked_ms, now_ms).decide(IMAGE)

    assert ended(-1) == ended(-1, NOW_MS + 5000) == SetToken("t", TOKEN, None)
    assert ended(0) == SetToken("t", TOKEN, replace(TOKEN, expiry_ms=NOW_MS))
    assert ended(10**6) == SetToken("t", TOKEN, replace(TOKEN, expiry_ms=TOKEN.max_ms))


def test_expired_token_is_removed_unless_renewed_since() -> None:
    assert list(token_removals(IMAGE, NOW_MS + 100)) == []
    (removal,) = token_removals(IMAGE, NOW_MS + 101)
    assert removal == TokenRemoval("t", NOW_MS + 101)
    assert removal(IMAGE) == SetToken("t", TOKEN, None)
    assert removal(EMPTY) is None
    assert removal(IMAGE.with_token("t", replace(TOKEN, expiry_ms=NOW_MS + 200))) is None


periods = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.sampled_from("nxr"), st.integers(0, 2000), periods), max_size=20))
def test_no_token_expires_after_its_maximum(steps: list[tuple[str, int, int]]) -> None:
    """In any order of requests, the expiry lies between now and the maximum."""
    image, now_ms = EMPTY, END_OF_TIME_MS - 20_000
    for kind, passed_ms, asked_ms in steps:
        now_ms += passed_ms
        before = image.tokens.get("t")
        decisions: dict[str, Decide] = {
            "n": TokenCreation(created(asked_ms, now_ms)).decide,
            "x": TokenExpiry("t", "User:a", asked_ms, now_ms).decide,
            "r": TokenRenewal("t", "User:a", asked_ms, LIFETIMES, now_ms).decide,
        }
        outcome = DecisionOutcome(decisions[kind])
        change = outcome(image.with_token("t", None) if kind == "n" else image)
        if outcome.refusal is not None:
            unknown = outcome.refusal.error == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            assert (before is None) == unknown
            assert before is None or before.has_expired(now_ms)
            continue
        if kind == "n":
            image = image.with_token("t", None)
        assert change is not None
        image = change.apply_to(image)
        token = image.tokens.get("t")
        if token is not None:
            assert now_ms <= token.expiry_ms <= token.max_ms <= END_OF_TIME_MS
            assert token.max_ms - token.issue_ms <= LIFETIMES.max_ms
