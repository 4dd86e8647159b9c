"""OAUTHBEARER with tokens that nobody has signed, as Apache Kafka takes them by default."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.security.sasl.exchange import AuthenticationError, BrokenExchange, SaslError
from kwire.security.sasl.oauthbearer import (
    BadToken,
    OAuthBearerClient,
    OAuthBearerServer,
    Token,
    UnsecuredRules,
    unsecured_token,
    validate_unsecured,
)

NOW_MS = 1_800_000_000_000
RULES = UnsecuredRules()


def server(rules: UnsecuredRules = RULES) -> OAuthBearerServer:
    return OAuthBearerServer(lambda token: validate_unsecured(token, rules, NOW_MS))


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def jws(**changed: Any) -> str:  # noqa: ANN401 - any JSON
    claims = {"sub": "alice", "exp": NOW_MS / 1000 + 60, **changed}
    return f"{part({'alg': 'none'})}.{part(claims)}."


def test_who_shows_a_good_token_is_it_for_its_time() -> None:
    it = server()
    client = OAuthBearerClient(unsecured_token("alice", NOW_MS, NOW_MS + 60_000))
    assert it.respond(client.first()) == b""
    assert (it.principal_name, it.expires_ms) == ("alice", NOW_MS + 60_000)
    assert client.respond(b"") is None


def test_who_does_not_is_told_twice() -> None:
    it = server()
    client = OAuthBearerClient(unsecured_token("alice", NOW_MS - 2, NOW_MS - 1))
    refusal = it.respond(client.first())
    assert json.loads(refusal) == {"status": "invalid_token"}
    last = client.respond(refusal)
    assert last == b"\x01"
    with pytest.raises(AuthenticationError, match="invalid_token"):
        it.respond(last)
    assert it.principal_name is None


def test_a_scope_that_is_lacking_is_named() -> None:
    it = server(UnsecuredRules(required_scope=("a", "b")))
    refusal = it.respond(OAuthBearerClient(jws(scope=["a"])).first())
    assert json.loads(refusal) == {"status": "insufficient_scope", "scope": "[a, b]"}


def test_rules_come_from_a_login_module() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorScopeClaimName": "may",
        "unsecuredValidatorRequiredScope": "a b",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
    }
    rules = UnsecuredRules.of(options)
    assert rules == UnsecuredRules("name", "may", ("a", "b"), 3000)
    late = jws(name="n", may=["b", "a"], exp=NOW_MS / 1000 - 2)
    assert validate_unsecured(late, rules, NOW_MS) == Token("n", NOW_MS - 2000)
    with pytest.raises(ValueError, match="soon"):
        UnsecuredRules.of({"unsecuredValidatorAllowableClockSkewMs": "soon"})


@pytest.mark.parametrize(
    "token",
    [
        jws(exp=NOW_MS / 1000),
        jws(exp="soon"),
        jws(exp=True),
        jws(exp=float("inf")),
        jws(iat=NOW_MS / 1000 + 1),
        jws(iat=NOW_MS / 1000 - 1, exp=NOW_MS / 1000 - 1),
        jws(sub=" "),
        jws(sub=7),
        jws() + "signed",
        jws().replace(part({"alg": "none"}), part({"alg": "HS256"})),
        jws().replace(part({"alg": "none"}), "!"),
        jws()[:-1],
        "..",
        "",
    ],
)
def test_tokens_that_are_not_good(token: str) -> None:
    with pytest.raises(BadToken):
        validate_unsecured(token, RULES, NOW_MS)


@given(st.binary(max_size=200))
def test_no_message_makes_it_fail_otherwise(message: bytes) -> None:
    it = server()
    try:
        it.respond(message)
    except (SaslError, BrokenExchange):
        assert it.principal_name is None


@given(st.text("abAB._-=01", max_size=60), st.recursive(st.none() | st.text(), st.lists))
def test_no_token_makes_it_fail_otherwise(text: str, value: object) -> None:
    for token in (
        text,
        f"{text}.{text}.",
        f"{part({'alg': 'none'})}.{part(value)}.",
        jws(exp=value),
    ):
        try:
            validate_unsecured(token, RULES, NOW_MS)
        except (BadToken, BrokenExchange):
            continue
        raise AssertionError(token)
