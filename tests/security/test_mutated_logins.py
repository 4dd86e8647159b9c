"""Logins with random changes never succeed and cause no unhandled error."""

from __future__ import annotations

import random

import pytest

from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import DecodeError, Frame, Message
from kwire.requests.context import CloseConnection
from kwire.security.listener_sasl import Mechanism
from kwire.security.sasl.exchange import ClientExchange, ServerExchange
from kwire.security.sasl.oauthbearer import (
    OAuthBearerClient,
    OAuthBearerServer,
    UnsecuredRules,
    unsecured_token,
    validate_unsecured,
)
from kwire.security.sasl.plain import PlainClient, PlainServer
from kwire.security.sasl.scram import (
    Account,
    ScramClient,
    ScramServer,
    credential_of,
    salted_password,
)
from kwire.server.network.authenticator import Authenticator, LoginFailed

NOW_MS = 1_800_000_000_000
SCRAM = "SCRAM-SHA-256"
CREDENTIAL = credential_of(SCRAM, salted_password(SCRAM, "secret", b"salt", 4096), b"salt", 4096)
TOKEN = unsecured_token("alice", NOW_MS, NOW_MS + 60_000)


def servers() -> dict[str, Mechanism]:
    def scram() -> ServerExchange:
        account = Account(CREDENTIAL, "alice")
        return ScramServer(SCRAM, lambda user, _: account if user == "alice" else None, lambda: "s")

    def oauth() -> ServerExchange:
        return OAuthBearerServer(lambda t: validate_unsecured(t, UnsecuredRules(), NOW_MS))

    return {
        "PLAIN": Mechanism("PLAIN", lambda: PlainServer({"alice": b"secret"}), 0),
        SCRAM: Mechanism(SCRAM, scram, 0),
        "OAUTHBEARER": Mechanism("OAUTHBEARER", oauth, 0),
    }


def clients() -> dict[str, ClientExchange]:
    return {
        "PLAIN": PlainClient("alice", "secret"),
        SCRAM: ScramClient(SCRAM, "alice", "secret", "c"),
        "OAUTHBEARER": OAuthBearerClient(TOKEN),
    }


def frame_of(request: Message, version: int) -> bytes:
    assert request.API_KEY is not None
    header = request.API_KEY.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff"
    return (
        header
        + (b"\0" if request.API_KEY == 36 and version == 2 else b"")
        + request.encode(version)
    )


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 2 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del changed[at : at + rng.randrange(1, 9)]
        else:
            changed[at : at + 1] = bytes((rng.choice((0, 1, 44, 61, 255)),))
    return bytes(changed)


def attempt(rng: random.Random) -> bool:
    """One login with changed frames; returns whether it completed."""
    mechanism = rng.choice(tuple(servers()))
    raw, version = rng.random() < 0.3, rng.randrange(3)
    authenticator = Authenticator(servers(), lambda _: Frame())
    client = clients()[mechanism]
    frame = frame_of(SaslHandshakeRequest(mechanism), 0 if raw else 1)
    token: bytes | None = None
    while authenticator.login is None:
        sent = mutated(frame, rng) if rng.random() < 0.3 else frame
        try:
            reply = authenticator.receive(memoryview(sent), NOW_MS)
        except (LoginFailed, CloseConnection, DecodeError):
            assert authenticator.login is None
            assert sent != frame, "nobody else is turned away"
            return False
        if sent != frame:
            break
        assert reply is not None
        token = client.first() if token is None else client.respond(said(reply, raw, version))
        if token is not None:
            frame = token if raw else frame_of(SaslAuthenticateRequest(token), version)
    if authenticator.login is not None and mechanism != "OAUTHBEARER":
        assert authenticator.login.principal == "User:alice"
    return authenticator.login is not None


def said(reply: Frame, raw: bool, version: int) -> bytes:
    """The server's token in a response."""
    if raw:
        return bytes(reply[4:])
    response = SaslAuthenticateResponse.decode(reply, version, 8 + (version == 2))
    return bytes(response.auth_bytes)


def test_thousands_of_mutated_logins_raise_no_error(rng: random.Random) -> None:
    ends = [attempt(rng) for _ in range(5_000)]
    assert 1000 < sum(ends) < 4000, "both happen"


@pytest.mark.long
def test_hundred_thousand_mutated_logins_raise_no_error(rng: random.Random) -> None:
    for _ in range(100_000):
        attempt(rng)
