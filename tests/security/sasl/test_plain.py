"""PLAIN with the behaviour of Apache Kafka's PlainSaslServer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.security.sasl.exchange import AuthenticationError, SaslError
from kwire.security.sasl.plain import PlainClient, PlainServer, users_of

USERS = users_of({"user_alice": "secret", "user_": "no name", "user_ü": "ö", "username": "me"})


def test_only_user_options_define_users() -> None:
    assert sorted(USERS) == ["", "alice", "ü"]


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_right_password_authenticates_the_user(token: bytes) -> None:
    server = PlainServer(USERS)
    assert server.respond(token) == b""
    assert server.principal_name == "alice"


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0no name", "Authentication failed: username not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_wrong_credentials_are_refused_with_a_message(token: bytes, told: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationError) as failure:
        server.respond(token)
    assert str(failure.value) == told
    assert server.principal_name is None


@pytest.mark.parametrize(("token", "count"), [(b"", 1), (b"alice\0secret", 2), (b"\0a\0b\0", 4)])
def test_malformed_plain_token_is_refused(token: bytes, count: int) -> None:
    with pytest.raises(AuthenticationError, match=f"expected 3 tokens, got {count}"):
        PlainServer(USERS).respond(token)


@given(st.binary(max_size=60))
def test_random_tokens_raise_only_documented_exceptions(token: bytes) -> None:
    server = PlainServer(USERS)
    try:
        server.respond(token)
    except SaslError:
        assert server.principal_name is None


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(NAMES, NAMES)
def test_client_and_server_complete_an_exchange(user: str, password: str) -> None:
    server = PlainServer({user: password.encode()})
    assert server.respond(PlainClient(user, password).first()) == b""
    assert server.principal_name == user
