"""The checks of a signed token's sections, signature and claims, by the rules of jose4j."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import jwt
import pytest

from kwire.security.oauth.signed_token import SignedRules, validate_signed
from kwire.security.sasl.exchange import BrokenExchange
from kwire.security.sasl.oauthbearer import BadToken, ValidatedToken

SECRET: Final = b"a secret that is known to both sides, and long enough"
KEY: Final = jwt.PyJWK(
    {"kty": "oct", "alg": "HS256", "k": base64.urlsafe_b64encode(SECRET).decode().rstrip("=")}
)
NOW_S: Final = 1_800_000_000
RULES: Final = SignedRules()
STRICT: Final = SignedRules(frozenset({"kafka", "other"}), "https://issuer", 0, "may", "name")
LONG_MAX: Final = 2**63 - 1


def signed(payload: object, header: Mapping[str, Any] | None = None) -> str:
    """A token with this payload, JSON or bytes."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return jwt.PyJWS().encode(data, SECRET, "HS256", dict(header or {}))


def token(**changed: Any) -> str:  # noqa: ANN401 - any JSON
    """A valid token with some claims changed; None removes a claim."""
    claims = {"sub": "alice", "iat": NOW_S - 60, "exp": NOW_S + 60, **changed}
    return signed({name: value for name, value in claims.items() if value is not None})


def validated(text: str, rules: SignedRules = RULES) -> ValidatedToken:
    return validate_signed(text, rules, lambda header: KEY, NOW_S * 1000 + 999)


def reason(text: str, rules: SignedRules = RULES) -> str:
    with pytest.raises(BadToken) as refused:
        validated(text, rules)
    return str(refused.value)


def section(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# -- sections and signature


def test_valid_token_has_its_subject_and_expiry_time() -> None:
    assert validated(token()) == ValidatedToken("alice", (NOW_S + 60) * 1000)
    assert validated(token(sub=" alice ", exp=NOW_S + 60.9)).expires_ms == (NOW_S + 60) * 1000
    assert validated(token(sub=" alice ")).principal_name == "alice"


@pytest.mark.parametrize("text", ["", "a.b", "a.b.", ".b.c", "a..c", "a.b.c.d"])
def test_token_without_three_sections_is_refused(text: str) -> None:
    assert reason(text) == "the token does not have three sections"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("!", "JSON"),
        ("a", "not base64"),
        (section(7), "a section of the token is not a JSON object"),
        (section({}), "the token is not signed"),
        (section({"alg": "none"}), "the token is not signed"),
        (section({"alg": 7}), "the token is not signed"),
        (section({"alg": "HS256", "kid": 7}), "the token's key id is not a string"),
    ],
)
def test_invalid_header_is_refused(header: str, why: str) -> None:
    _, claims, signature = token().split(".")
    assert why in reason(f"{header}.{claims}.{signature}")


def test_key_is_found_by_the_tokens_header() -> None:
    headers = []

    def find(header: Mapping[str, Any]) -> None:
        headers.append(header)

    text = signed({}, {"kid": "k"})
    with pytest.raises(BadToken, match="no key 'k' for HS256 exists"):
        validate_signed(text, RULES, find, 0)
    assert [(each["alg"], each["kid"]) for each in headers] == [("HS256", "k")]


def test_changed_claims_fail_the_signature() -> None:
    header, _, signature = token().split(".")
    claims = section({"sub": "root", "iat": NOW_S, "exp": NOW_S + 60})
    assert "ignature" in reason(f"{header}.{claims}.{signature}")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"{", "a section of the token is not JSON"),
        (b"[" * 100_000, "a section of the token is not JSON"),
        (b"[]", "a section of the token is not a JSON object"),
        (b'{"sub": "a", "sub": "b"}', "a name occurs twice in the token"),
    ],
)
def test_invalid_payload_is_refused(payload: bytes, why: str) -> None:
    assert reason(signed(payload)) == why


# -- times


@pytest.mark.parametrize("claim", ["iat", "exp"])
def test_token_without_a_time_is_refused(claim: str) -> None:
    assert reason(token(**{claim: None})) == "the token has no issue time or no expiry time"


@pytest.mark.parametrize("claim", ["iat", "exp", "nbf"])
@pytest.mark.parametrize("value", ["soon", True, [], float("nan")])
def test_time_that_is_not_a_number_is_refused(claim: str, value: object) -> None:
    assert reason(token(**{claim: value})) == f"{claim} is not a number"


@pytest.mark.parametrize("value", [2**63, -(2**63)])
def test_time_beyond_a_long_is_refused(value: int) -> None:
    assert reason(token(exp=value)) == "exp is too large"


@pytest.mark.parametrize("value", [LONG_MAX, float("inf"), LONG_MAX // 1000 + 1])
def test_time_that_overflows_in_milliseconds_breaks_the_exchange(value: float) -> None:
    with pytest.raises(BrokenExchange, match="too large"):
        validated(token(exp=value))
    assert validated(token(exp=LONG_MAX // 1000)).expires_ms == LONG_MAX // 1000 * 1000


def test_negative_issue_time_is_refused() -> None:
    assert reason(token(iat=-1)) == "a time of the token is negative"
    assert validated(token(iat=0)).principal_name == "alice"


@pytest.mark.parametrize(
    ("claims", "skew_s", "why"),
    [
        ({"exp": NOW_S}, 0, "the token has expired"),
        ({"exp": NOW_S + 1}, 0, None),
        ({"exp": NOW_S - 29}, 30, None),
        ({"exp": NOW_S - 30}, 30, "the token has expired"),
        ({"iat": NOW_S + 61}, 0, "the token expires before it was issued"),
        ({"iat": NOW_S + 60}, 0, None),  # it may be issued in the future
        ({"nbf": NOW_S}, 0, None),
        ({"nbf": NOW_S + 1}, 0, "the token is not valid yet"),
        ({"nbf": NOW_S + 30}, 30, None),
        ({"nbf": NOW_S + 31}, 30, "the token is not valid yet"),
        ({"nbf": NOW_S + 60}, 60, None),
        ({"nbf": NOW_S + 61}, 90, "the token expires before it becomes valid"),
    ],
)
def test_times_allow_the_clock_skew(claims: dict[str, int], skew_s: int, why: str | None) -> None:
    given = token(**{"iat": NOW_S - 3600, **claims})
    rules = SignedRules(clock_skew_s=skew_s)
    if why is None:
        assert validated(given, rules).principal_name == "alice"
    else:
        assert reason(given, rules) == why


# -- parties


@pytest.mark.parametrize(
    ("audience", "expected", "why"),
    [
        (None, None, None),
        ("kafka", None, None),
        ([], None, None),
        (7, None, None),
        ("kafka", ("kafka",), None),
        (["x", "kafka"], ("kafka", "other"), None),
        (["x", "y"], ("kafka",), "the token is for another audience"),
        ([], ("kafka",), "the token is for another audience"),
        (None, ("kafka",), "the token is for another audience"),
        (7, ("kafka",), "aud is neither a string nor a list of strings"),
        (["kafka", 7], ("kafka",), "aud is neither a string nor a list of strings"),
        ({"kafka": 1}, ("kafka",), "aud is neither a string nor a list of strings"),
    ],
)
def test_audience_is_one_of_those_expected(
    audience: object, expected: tuple[str, ...] | None, why: str | None
) -> None:
    """Without any, the claim is not even read."""
    given = token(aud=audience)
    rules = SignedRules(None if expected is None else frozenset(expected))
    if why is None:
        assert validated(given, rules).principal_name == "alice"
    else:
        assert reason(given, rules) == why


def test_issuer_is_the_expected_one() -> None:
    rules = SignedRules(issuer="https://issuer")
    assert validated(token(iss="https://issuer"), rules).principal_name == "alice"
    assert validated(token(iss="https://any")).principal_name == "alice"
    for issuer in ("https://other", None):
        why = "the token's issuer is not https://issuer"
        assert reason(token(iss=issuer), rules) == why
    assert reason(token(iss=7)) == "iss is not a string"


@pytest.mark.parametrize("claim", ["sub", "jti"])
def test_subject_and_id_are_strings(claim: str) -> None:
    assert reason(token(**{claim: 7})) == f"{claim} is not a string"


@pytest.mark.parametrize("subject", [None, "", " "])
def test_token_without_a_subject_is_refused(subject: str | None) -> None:
    assert reason(token(sub=subject)) == "the token has no subject"


def test_claim_names_and_skew_come_from_the_rules() -> None:
    given = token(name="bob", sub=None, may=["a"], aud=["kafka"], iss="https://issuer")
    assert validated(given, STRICT).principal_name == "bob"
    twice = token(name="bob", may=["a", "a"], aud=["kafka"], iss="https://issuer")
    assert reason(twice, STRICT) == "a scope occurs twice in the token"


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("a b", None),
        (["a", "b"], None),
        ([], None),
        (7, None),
        (" ", "a scope of the token is empty"),
        (["a", " "], "a scope of the token is empty"),
        (["a", 7], "a scope of the token is empty"),
        (["a", " a"], "a scope occurs twice in the token"),
    ],
)
def test_scopes_are_neither_empty_nor_repeated(scope: object, why: str | None) -> None:
    if why is None:
        assert validated(token(scope=scope)).principal_name == "alice"
    else:
        assert reason(token(scope=scope)) == why
