"""OAUTHBEARER with unsecured tokens, which Apache Kafka accepts by default."""

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
    UnsecuredRules,
    ValidatedToken,
    expires_ms_of,
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


def test_valid_token_authenticates_until_it_expires() -> None:
    it = server()
    client = OAuthBearerClient(unsecured_token("alice", NOW_MS, NOW_MS + 60_000))
    assert it.respond(client.first()) == b""
    assert (it.principal_name, it.expires_ms) == ("alice", NOW_MS + 60_000)
    assert client.respond(b"") is None


def test_invalid_token_gets_an_error_twice() -> None:
    it = server()
    client = OAuthBearerClient(unsecured_token("alice", NOW_MS - 2, NOW_MS - 1))
    refusal = it.respond(client.first())
    assert json.loads(refusal) == {"status": "invalid_token"}
    last = client.respond(refusal)
    assert last == b"\x01"
    with pytest.raises(AuthenticationError, match="invalid_token"):
        it.respond(last)
    assert it.principal_name is None


def test_error_names_the_missing_scope() -> None:
    it = server(UnsecuredRules(required_scope=("a", "b")))
    refusal = it.respond(OAuthBearerClient(jws(scope=["a"])).first())
    assert json.loads(refusal) == {"status": "insufficient_scope", "scope": "[a, b]"}


def test_unsecured_token_rules_come_from_the_login_module() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorScopeClaimName": "may",
        "unsecuredValidatorRequiredScope": "a b",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
    }
    rules = UnsecuredRules.of(options)
    assert rules == UnsecuredRules("name", "may", ("a", "b"), 3000)
    late = jws(name="n", may=["b", "a"], exp=NOW_MS / 1000 - 2)
    assert validate_unsecured(late, rules, NOW_MS) == ValidatedToken("n", NOW_MS - 2000)
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
def test_invalid_unsecured_tokens_are_refused(token: str) -> None:
    with pytest.raises(BadToken):
        validate_unsecured(token, RULES, NOW_MS)


@given(st.binary(max_size=200))
def test_random_messages_raise_only_documented_exceptions(message: bytes) -> None:
    it = server()
    try:
        it.respond(message)
    except (SaslError, BrokenExchange):
        assert it.principal_name is None


@given(st.text("abAB._-=01", max_size=60), st.recursive(st.none() | st.text(), st.lists))
def test_random_tokens_raise_only_documented_exceptions(text: str, value: object) -> None:
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


@pytest.mark.parametrize("token", [f"{part([])}..", f"..{part([])}", f"{part([])}.a.b.c"])
def test_malformed_token_is_refused_before_its_parts_are_parsed(token: str) -> None:
    with pytest.raises(BadToken, match="not an unsecured JWS in compact form"):
        validate_unsecured(token, RULES, NOW_MS)


def test_unsecured_token_has_subject_and_times() -> None:
    header, claims, signature = unsecured_token("alice", 1_500, 61_500).split(".")
    read = [json.loads(base64.urlsafe_b64decode(each + "==")) for each in (header, claims)]
    assert read == [{"alg": "none"}, {"sub": "alice", "iat": 1.5, "exp": 61.5}]
    assert signature == ""


@pytest.mark.parametrize(
    ("token", "expires_ms"),
    [
        (unsecured_token("a", 0, 61_500), 61_500),
        (f"{part({})}.{part({'exp': 7})}.signature", 7_000),
        (f"{part({})}.{part({})}.", None),
        (f"{part({})}.{part({'exp': 'soon'})}.", None),
        (f"{part({})}.{part([])}.", None),
        ("a.b", None),
    ],
)
def test_expires_ms_of_reads_the_unverified_claim(token: str, expires_ms: int | None) -> None:
    assert expires_ms_of(token) == expires_ms


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (b"n,a=bob,\x01auth=Bearer TOKEN\x01\x01", AuthenticationError, "an authorization id"),
        (b"n,,\x01key=value\x01\x01", SaslError, "'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", SaslError, "invalid 'auth' format"),
        (b"n,,\x01auth=Basic TOKEN\x01\x01", BrokenExchange, "Invalid scheme"),
        (b"y,,\x01auth=Bearer TOKEN\x01\x01", SaslError, "Invalid OAUTHBEARER client first"),
        (b"", SaslError, "Invalid OAUTHBEARER client first message"),
    ],
)
def test_malformed_first_message_is_refused_with_a_message(
    message: bytes, error: type[Exception], said: str
) -> None:
    it = server()
    with pytest.raises(error, match=said):
        it.respond(message.replace(b"TOKEN", jws().encode()))
    assert it.principal_name is None


def test_other_authorization_id_error_has_both_names() -> None:
    said = (
        "Authentication failed: Client requested an authorization id (bob) that is different "
        "from the token's principal name (alice)"
    )
    with pytest.raises(AuthenticationError) as refused:
        server().respond(f"n,a=bob,\x01auth=bearer {jws()}\x01\x01".encode())
    assert str(refused.value) == said
    it = server()
    assert it.respond(f"n,a=alice,\x01auth=BEARER {jws()}\x01k=v\x01\x01".encode()) == b""
    assert it.principal_name == "alice"


@pytest.mark.parametrize(
    ("changed", "skew_ms", "is_good"),
    [
        ({"exp": NOW_MS / 1000}, 1, True),
        ({"exp": NOW_MS / 1000 - 1}, 1_000, False),
        ({"exp": NOW_MS / 1000 - 1}, 1_001, True),
        ({"iat": NOW_MS / 1000}, 0, True),
        ({"iat": NOW_MS / 1000 + 1}, 999, False),
        ({"iat": NOW_MS / 1000 + 1}, 1_000, True),
        ({"iat": NOW_MS / 1000 + 60}, 60_000, False),
    ],
)
def test_token_times_allow_the_clock_skew(
    changed: dict[str, float], skew_ms: int, is_good: bool
) -> None:
    rules = UnsecuredRules(clock_skew_ms=skew_ms)
    if is_good:
        assert validate_unsecured(jws(**changed), rules, NOW_MS).principal_name == "alice"
    else:
        with pytest.raises(BadToken):
            validate_unsecured(jws(**changed), rules, NOW_MS)


@pytest.mark.parametrize(("said", "is_good"), [(" a ", True), ("a b", False), (7, False)])
def test_string_claim_is_a_single_scope(said: object, is_good: bool) -> None:
    rules = UnsecuredRules(required_scope=("a",))
    if is_good:
        assert validate_unsecured(jws(scope=said), rules, NOW_MS).principal_name == "alice"
    else:
        with pytest.raises(BadToken) as refused:
            validate_unsecured(jws(scope=said), rules, NOW_MS)
        assert refused.value.scope == "a"
