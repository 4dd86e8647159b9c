"""SCRAM with the examples of the RFCs and the behaviour of Apache Kafka's ScramSaslServer."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.security.sasl.exchange import AuthenticationError, BrokenExchange, SaslError
from kwire.security.sasl.scram import (
    Account,
    Credential,
    ScramClient,
    ScramServer,
    credential_of,
    salted_password,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credential(
    password: str = "pencil", mechanism: str = "SCRAM-SHA-256", iterations: int = 4096
) -> Credential:
    salted = salted_password(mechanism, password, SALT, iterations)
    return credential_of(mechanism, salted, SALT, iterations)


CREDENTIALS = {name: credential(name) for name in ("user", "a,b=c")} | {"user": credential()}


def find(user: str, by_token: bool) -> Account | None:
    found = CREDENTIALS.get(user)
    return None if by_token or found is None else Account(found, user)


def server(
    mechanism: str = "SCRAM-SHA-256", find: Callable[..., Account | None] = find
) -> ScramServer:
    return ScramServer(mechanism, find, lambda: SERVER_NONCE)


def client(user: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient("SCRAM-SHA-256", user, password, CLIENT_NONCE)


FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
UNPROVED = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_exchange_matches_the_example_of_rfc_7677() -> None:
    it, other = server(), client()
    assert other.first() == FIRST
    assert it.respond(FIRST) == CHALLENGE
    assert other.respond(CHALLENGE) == UNPROVED + b",p=" + PROOF
    assert it.respond(UNPROVED + b",p=" + PROOF) == SIGNATURE
    assert it.principal_name == "user"
    assert other.respond(SIGNATURE) is None


@given(
    st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
)
def test_client_and_server_complete_an_exchange(user: str, password: str, mechanism: str) -> None:
    account = Account(credential(password, mechanism), user)
    it = server(mechanism, lambda name, by_token: account if name == user else None)
    other = ScramClient(mechanism, user, password, CLIENT_NONCE)
    token: bytes | None = other.first()
    while token is not None:
        token = other.respond(it.respond(token))
    assert it.principal_name == user


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc\n",
        b"n,a=,n=user,r=abc",
        "n,,n=ü,r=abc".encode(),
    ],
)
def test_malformed_first_message_is_refused(token: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
        server().respond(token)


def test_unknown_user_is_refused_at_the_first_message() -> None:
    with pytest.raises(SaslError, match="Invalid user credentials") as failure:
        server().respond(b"n,,n=nobody,r=abc")
    assert not isinstance(failure.value, AuthenticationError), "the client is not told"
    with pytest.raises(SaslError, match="Invalid user credentials"):
        server().respond(FIRST + b",tokenauth=true")


def test_other_authorization_id_is_refused() -> None:
    assert server().respond(b"n,a=user,n=user,r=abc")
    with pytest.raises(AuthenticationError, match="authorization id that is different"):
        server().respond(b"n,a=root,n=user,r=abc")


def test_user_names_are_escaped() -> None:
    it = server()
    other = client("a,b=c", "a,b=c")
    assert other.first().startswith(b"n,,n=a=2Cb=3Dc,r=")
    token = other.respond(it.respond(other.first()))
    assert token is not None
    it.respond(token)
    assert it.principal_name == "a,b=c"


def test_changed_extensions_of_the_first_message_fail_the_proof() -> None:
    it, other = server(), client()
    other._bare += ",note=hello"
    token = other.respond(it.respond(other.first()))
    assert token is not None
    it.respond(token)
    assert it.principal_name == "user"


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        (b"c=biws,r=other,p=" + PROOF, "Invalid client nonce"),
        (UNPROVED + b",p=" + PROOF[:-4] + b"AAA=", "Invalid client credentials"),
        (UNPROVED.replace(b"biws", b"eSws") + b",p=" + PROOF, "Invalid client credentials"),
        (UNPROVED + b",p=not base64", "final message format"),
        (UNPROVED, "final message format"),
        (b"", "final message format"),
    ],
)
def test_wrong_proof_is_refused(token: bytes, sentence: str) -> None:
    it = server()
    it.respond(FIRST)
    with pytest.raises(SaslError, match=sentence):
        it.respond(token)
    assert it.principal_name is None


@pytest.mark.parametrize("proof", [b"", b"AAAA"])
def test_proof_of_another_length_breaks_the_exchange(proof: bytes) -> None:
    it = server()
    it.respond(FIRST)
    with pytest.raises(BrokenExchange):
        it.respond(UNPROVED + b",p=" + proof)


def test_credential_with_too_few_iterations_is_refused() -> None:
    with pytest.raises(SaslError, match="Iterations 4095 is less than 4096"):
        server(find=lambda *_: Account(credential(iterations=4095), "user")).respond(FIRST)


def test_message_after_the_last_one_breaks_the_exchange() -> None:
    it = server()
    it.respond(FIRST)
    it.respond(UNPROVED + b",p=" + PROOF)
    with pytest.raises(BrokenExchange):
        it.respond(UNPROVED + b",p=" + PROOF)


@pytest.mark.parametrize(
    ("challenge", "sentence"),
    [
        (CHALLENGE.replace(b"rOpr", b"xxxx"), "does not start with client nonce"),
        (CHALLENGE.replace(b"4096", b"4095"), "4095 is less than 4096"),
        (b"e=other-error", "server first message format"),
    ],
)
def test_client_refuses_a_server_with_too_few_iterations(challenge: bytes, sentence: str) -> None:
    other = client()
    other.first()
    with pytest.raises(SaslError, match=sentence):
        other.respond(challenge)


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (SIGNATURE.replace(b"6rri", b"AAAA"), "Invalid server signature"),
        (b"e=unknown-user", "failed with an error"),
        (b"", "server final message format"),
    ],
)
def test_client_refuses_a_server_without_the_credential(last: bytes, sentence: str) -> None:
    other = client()
    other.first()
    other.respond(CHALLENGE)
    with pytest.raises(SaslError, match=sentence):
        other.respond(last)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_random_tokens_raise_only_documented_exceptions(first: bytes, last: bytes) -> None:
    it = server()
    try:
        it.respond(first)
        it.respond(last)
    except (SaslError, BrokenExchange):
        assert it.principal_name is None


@given(st.integers(0, len(FIRST) - 1), st.integers(0, 255))
def test_changed_byte_fails_the_exchange(position: int, byte: int) -> None:
    """A change in the signed message; `n,,` and the nonce must stay the same."""
    changed = bytearray(FIRST)
    changed[position] = byte
    it = server()
    try:
        it.respond(bytes(changed))
        it.respond(UNPROVED + b",p=" + PROOF)
    except (SaslError, BrokenExchange):
        assert it.principal_name is None
    else:
        assert changed == FIRST


def test_credential_text_matches_kafka() -> None:
    text = credential().text
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert Credential.parse(text) == credential()


@pytest.mark.parametrize(
    "text", ["", "salt=AA==", "salt=AA==,stored_key=!,server_key=,iterations=1"]
)
def test_invalid_credential_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not valid"):
        Credential.parse(text)


def test_credential_repr_has_no_keys() -> None:
    assert repr(credential()) == "<Credential of 4096 iterations>"


@pytest.mark.parametrize("answered", [False, True])
def test_client_refuses_a_server_message_that_is_not_utf_8(answered: bool) -> None:
    other = client()
    other.first()
    if answered:
        other.respond(CHALLENGE)
    with pytest.raises(SaslError, match=r"Invalid SCRAM server (first|final) message format"):
        other.respond(b"\xff")


@pytest.mark.parametrize("extension", ["tokenauth=true", "note=x,tokenauth=TRUE"])
def test_delegation_token_authenticates_its_owner_until_it_expires(extension: str) -> None:
    """The user name is the id of the token, and its password the HMAC."""
    asked: list[tuple[str, bool]] = []

    def find_token(user: str, by_token: bool) -> Account | None:
        asked.append((user, by_token))
        return Account(credential(), "owner", 1234)

    it, other = server(find=find_token), client("token-id")
    assert (it.expires_ms, it.by_token) == (None, False)
    other._bare += f",{extension}"
    token: bytes | None = other.first()
    while token is not None:
        token = other.respond(it.respond(token))
    assert asked == [("token-id", True)]
    assert (it.principal_name, it.expires_ms, it.by_token) == ("owner", 1234, True)


@pytest.mark.parametrize("extension", ["tokenauth=no", "note=true", "tokenauths=true"])
def test_other_extensions_do_not_ask_for_a_delegation_token(extension: str) -> None:
    it = server()
    it.respond(FIRST + f",{extension}".encode())
    assert not it.by_token


@pytest.mark.parametrize("final", [b",ext=x,p=", b",a=b,c=d,p="])
def test_extensions_of_the_last_message_are_not_signed(final: bytes) -> None:
    it = server()
    it.respond(FIRST)
    assert it.respond(UNPROVED + final + PROOF) == SIGNATURE


def test_iterations_of_a_credential_reach_the_client() -> None:
    it = server(find=lambda *_: Account(credential(iterations=5000), "user"))
    other = client()
    challenge = it.respond(other.first())
    assert challenge.endswith(b",i=5000")
    final = other.respond(challenge)
    assert final is not None
    assert other.respond(it.respond(final)) is None
