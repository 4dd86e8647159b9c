"""The conversation of a SASL login, frame by frame, with mechanisms that the test scripts."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection, InvalidFrame
from kwire.security.listener_sasl import Mechanism
from kwire.security.sasl.exchange import AuthenticationError, BrokenExchange, SaslError
from kwire.server.network.authenticator import Authenticator, Login, LoginFailed

NOW_MS = 1_000_000
FAILED = "Authentication failed during {} due to invalid credentials with SASL mechanism SCRIPTED"


class Exchange:
    """Answers `last` with a login, `more` with another token, and raises the error of others."""

    principal_name: str | None = None
    by_token = False

    def __init__(self, name: str, expires_ms: int | None, error: Exception | None) -> None:
        self._name = name
        self.expires_ms = expires_ms
        self._error = error

    def respond(self, token: bytes) -> bytes:
        if token == b"more":
            return b"go on"
        if self._error is not None:
            raise self._error
        self.principal_name = self._name
        return b"welcome"


def versions(frame: memoryview) -> Frame:
    """The reply to ApiVersions: with UNSUPPORTED_VERSION for a version of the future."""
    reply = Frame()
    reply += bytes(8) + (35 if frame[3] == 9 else 0).to_bytes(2, "big")
    return reply


def authenticator(
    name: str = "alice",
    *,
    expires_ms: int | None = None,
    max_reauth_ms: int = 0,
    error: Exception | None = None,
    before: Login | None = None,
) -> Authenticator:
    mechanisms = {
        each: Mechanism(each, lambda: Exchange(name, expires_ms, error), max_reauth_ms)
        for each in ("SCRIPTED", "OTHER")
    }
    return Authenticator(mechanisms, versions, before)


def frame_of(request: Message, version: int) -> memoryview:
    """A request as it arrives, without its size; the correlation id is 7, the client id `me`."""
    assert request.API_KEY is not None
    header = struct.pack(">hhih", request.API_KEY, version, 7, 2) + b"me"
    if request_header_version(request.API_KEY, version) >= 2:
        header += b"\0"
    return memoryview(header + request.encode(version))


def reply_of(reply: Frame | None, kind: type[Message], version: int) -> Any:  # noqa: ANN401 - a response
    assert reply is not None
    data = reply.tobytes()
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert int.from_bytes(data[4:8], "big") == 7
    assert kind.API_KEY is not None
    position = 9 if response_header_version(kind.API_KEY, version) >= 1 else 8
    return kind.decode(memoryview(bytearray(data)), version, position)


def handshake(it: Authenticator, name: str = "SCRIPTED", version: int = 1) -> Any:  # noqa: ANN401 - a response
    reply = it.receive(frame_of(SaslHandshakeRequest(name), version), NOW_MS)
    return reply_of(reply, SaslHandshakeResponse, version)


def token(it: Authenticator, data: bytes, version: int = 2) -> Any:  # noqa: ANN401 - a response
    reply = it.receive(frame_of(SaslAuthenticateRequest(data), version), NOW_MS)
    return reply_of(reply, SaslAuthenticateResponse, version)


# -- a login that succeeds


@pytest.mark.parametrize("version", [0, 1, 2])
def test_login_ends_when_the_exchange_knows_the_principal(version: int) -> None:
    it = authenticator()
    assert it.receive(frame_of(ApiVersionsRequest(), 0), NOW_MS) == versions(memoryview(bytes(4)))
    told = handshake(it)
    assert (told.error_code, told.mechanisms) == (ErrorCode.NONE, ["SCRIPTED", "OTHER"])
    told = token(it, b"more", version)
    assert (told.error_code, told.auth_bytes, it.login) == (ErrorCode.NONE, b"go on", None)
    told = token(it, b"last", version)
    assert (told.error_code, told.auth_bytes) == (ErrorCode.NONE, b"welcome")
    assert it.login == Login("SCRIPTED", "User:alice", None, by_token=False)


def test_tokens_after_the_first_version_of_the_handshake_are_bare() -> None:
    it = authenticator()
    handshake(it, version=0)
    for data, answer in ((b"more", b"go on"), (b"last", b"welcome")):
        reply = it.receive(memoryview(data), NOW_MS)
        assert reply is not None
        assert reply.tobytes() == len(answer).to_bytes(4, "big") + answer
    assert it.login is not None


@pytest.mark.parametrize(
    ("expires_ms", "max_reauth_ms", "lifetime_ms"),
    [
        (None, 0, None),
        (None, 5000, 5000),
        (NOW_MS + 4000, 0, 4000),
        (NOW_MS + 4000, 5000, 4000),
        (NOW_MS + 6000, 5000, 5000),
        (NOW_MS - 1, 5000, 0),
    ],
)
def test_login_lives_as_long_as_its_credential_and_the_setting_allow(
    expires_ms: int | None, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    it = authenticator(expires_ms=expires_ms, max_reauth_ms=max_reauth_ms)
    handshake(it)
    told = token(it, b"last")
    assert it.login is not None
    assert (it.login.lifetime_ms, told.session_lifetime_ms) == (lifetime_ms, lifetime_ms or 0)


# -- requests that are not allowed


def test_api_versions_may_come_once_before_the_handshake() -> None:
    """Again only after an answer with an error: the client asks in version 0 then."""
    it = authenticator()
    it.receive(memoryview(struct.pack(">hhih", ApiKey.API_VERSIONS, 9, 7, -1) + b"\0"), NOW_MS)
    it.receive(frame_of(ApiVersionsRequest(), 0), NOW_MS)
    with pytest.raises(CloseConnection) as closed:
        it.receive(frame_of(ApiVersionsRequest(), 0), NOW_MS)
    assert str(closed.value) == "unexpected ApiVersions request during SASL handshake"
    handshake(it)


def test_other_request_before_the_handshake_closes_the_connection() -> None:
    with pytest.raises(CloseConnection) as closed:
        authenticator().receive(frame_of(HeartbeatRequest(), 0), NOW_MS)
    assert str(closed.value) == "unexpected request HEARTBEAT during SASL handshake"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "request of 0 bytes is shorter than its header"),
        (bytes(9), "request of 9 bytes is shorter than its header"),
        (struct.pack(">hhih", 17, 1, 7, 3) + b"me", "a client id of 3 bytes does not fit"),
        (struct.pack(">hhih", 999, 1, 7, 0), "API key 999 is not one of Kafka's"),
        (struct.pack(">hhih", 17, 9, 7, 0), "SaslHandshake version 9 is not served"),
    ],
)
def test_frame_that_is_no_request_closes_the_connection(frame: bytes, why: str) -> None:
    with pytest.raises(InvalidFrame, match=why):
        authenticator().receive(memoryview(frame), NOW_MS)


def test_unknown_mechanism_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LoginFailed, match="Unsupported SASL mechanism 'GSSAPI'") as failed:
        authenticator().receive(frame_of(SaslHandshakeRequest("GSSAPI"), 1), NOW_MS)
    told = reply_of(failed.value.reply, SaslHandshakeResponse, 1)
    assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert told.mechanisms == ["SCRIPTED", "OTHER"]


def test_other_request_in_place_of_a_token_is_answered_with_its_own_error() -> None:
    it = authenticator()
    handshake(it)
    with pytest.raises(LoginFailed, match="Unexpected Kafka request of type HEARTBEAT") as failed:
        it.receive(frame_of(HeartbeatRequest(), 0), NOW_MS)
    told = reply_of(failed.value.reply, HeartbeatResponse, 0)
    assert told.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_token_in_a_version_that_is_not_served_closes_the_connection() -> None:
    it = authenticator()
    handshake(it)
    header = struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 3, 7, 0)
    with pytest.raises(InvalidFrame, match="SaslAuthenticate version 3 is not served"):
        it.receive(memoryview(header + b"\0"), NOW_MS)


# -- a login that fails


@pytest.mark.parametrize("is_renewal", [False, True])
@pytest.mark.parametrize(
    ("error", "told"),
    [(AuthenticationError("wrong password"), "wrong password"), (SaslError("no such user"), None)],
)
def test_failed_login_tells_the_client_no_more_than_it_may_know(
    is_renewal: bool, error: SaslError, told: str | None
) -> None:
    before = Login("SCRIPTED", "User:alice", 1) if is_renewal else None
    it = authenticator(error=error, before=before)
    handshake(it)
    with pytest.raises(LoginFailed, match=str(error)) as failed:
        it.receive(frame_of(SaslAuthenticateRequest(b"last"), 2), NOW_MS)
    response = reply_of(failed.value.reply, SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    kind = "re-authentication" if is_renewal else "authentication"
    assert response.error_message == (told or FAILED.format(kind))
    assert it.login is None


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (AuthenticationError("wrong password"), LoginFailed),
        (SaslError("no such user"), CloseConnection),
        (BrokenExchange("no token"), CloseConnection),
    ],
)
def test_failed_login_by_bare_tokens_has_no_reply(
    error: Exception, raised: type[Exception]
) -> None:
    it = authenticator(error=error)
    handshake(it, version=0)
    with pytest.raises(raised, match=str(error)) as failed:
        it.receive(memoryview(b"last"), NOW_MS)
    assert getattr(failed.value, "reply", None) is None


def test_broken_exchange_closes_the_connection() -> None:
    it = authenticator(error=BrokenExchange("no token"))
    handshake(it)
    with pytest.raises(CloseConnection, match="no token"):
        it.receive(frame_of(SaslAuthenticateRequest(b"last"), 2), NOW_MS)


# -- a login that is renewed


def test_renewal_begins_with_the_handshake() -> None:
    it = authenticator(before=Login("SCRIPTED", "User:alice", 1))
    with pytest.raises(CloseConnection, match="unexpected ApiVersions request"):
        it.receive(frame_of(ApiVersionsRequest(), 0), NOW_MS)
    handshake(it)
    token(it, b"last")
    assert it.login == Login("SCRIPTED", "User:alice", None)


def test_renewal_by_another_mechanism_fails_at_the_next_frame() -> None:
    it = authenticator(before=Login("OTHER", "User:alice", 1))
    assert handshake(it).error_code == ErrorCode.NONE
    why = "is not supported for re-authentication of mechanism 'OTHER'"
    with pytest.raises(LoginFailed, match=why) as failed:
        it.receive(frame_of(SaslAuthenticateRequest(b"last"), 2), NOW_MS)
    assert failed.value.reply is None
    unknown = authenticator(before=Login("OTHER", "User:alice", 1))
    with pytest.raises(CloseConnection, match="renewed by SASL mechanism 'GSSAPI'"):
        unknown.receive(frame_of(SaslHandshakeRequest("GSSAPI"), 1), NOW_MS)


def test_renewal_keeps_the_principal() -> None:
    it = authenticator("bob", before=Login("SCRIPTED", "User:alice", 1))
    handshake(it)
    why = "Cannot change principals during re-authentication from User.alice: User.bob"
    with pytest.raises(LoginFailed, match=why) as failed:
        it.receive(frame_of(SaslAuthenticateRequest(b"last"), 2), NOW_MS)
    response = reply_of(failed.value.reply, SaslAuthenticateResponse, 2)
    assert response.error_message == why
    assert it.login is None
