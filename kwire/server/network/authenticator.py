"""The conversation that ends with knowing who a client is, or without it.

Frames in, frames out, as Apache Kafka's SaslServerAuthenticator has them:

    ApiVersions (once, may be left out), SaslHandshake, then tokens until the exchange is done.

After SaslHandshake v1 tokens come in SaslAuthenticate requests; after v0 they are frames of nothing
else, and a failure is not told but by closing the connection.  Re-authentication (KIP-368) is the
same from SaslHandshake on, and may change neither mechanism nor principal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.messages import request_class, response_class
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection, InvalidFrame
from kwire.security.listener_sasl import Mechanism
from kwire.security.sasl.exchange import (
    AuthenticationError,
    BrokenExchange,
    SaslError,
    ServerExchange,
)
from kwire.server.network.header import FLEXIBLE_HEADER, skip_tagged_fields
from kwire.server.network.replies import encode_reply, form_of

_HEADER = struct.Struct(">hhih")  # api key, api version, correlation id, client id length
_KIND = "User"
_HANDSHAKE_VERSIONS = range(SaslHandshakeRequest.MIN_VERSION, SaslHandshakeRequest.MAX_VERSION + 1)
_AUTHENTICATE_VERSIONS = range(
    SaslAuthenticateRequest.MIN_VERSION, SaslAuthenticateRequest.MAX_VERSION + 1
)


class AuthenticationFailed(Exception):
    """The conversation is over, and its connection with it; the text is for the log.

    `reply` goes out before the connection is closed, and both only after
    `connection.failed.authentication.delay.ms`.
    """

    def __init__(self, why: str, reply: Frame | None = None) -> None:
        super().__init__(why)
        self.reply = reply


class Login(NamedTuple):
    """What came of it: who it is, by which mechanism, for how long (None for as long as it likes).

    `principal` is in Kafka's form, `User:alice`; `by_token`: it is known by a delegation token.
    """

    mechanism: str
    principal: str
    lifetime_ms: int | None
    by_token: bool = False


class _Request(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    position: int
    """Where the body begins."""


class _Phase(Enum):
    """What the client may say next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    NOTHING = auto()
    """Re-authentication by another mechanism: whatever comes now is the end."""


class Authenticator:
    """One login; `login` is set when it is done.

    `answer_versions` answers an ApiVersions request as the broker would, `before` is the login
    that is renewed.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Mechanism],
        answer_versions: Callable[[memoryview], Frame],
        before: Login | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._answer_versions = answer_versions
        self._before = before
        self._phase = _Phase.HANDSHAKE if before else _Phase.VERSIONS_OR_HANDSHAKE
        self._mechanism: Mechanism | None = None
        self._exchange: ServerExchange | None = None
        self._in_requests = False
        self.login: Login | None = None

    def receive(self, frame: memoryview, now_ms: int) -> Frame | None:
        """The reply to a frame, without its size; None where there is none.

        Raises AuthenticationFailed, and CloseConnection where Kafka closes without a delay.
        """
        if self._phase is _Phase.NOTHING:
            assert self._before is not None
            raise AuthenticationFailed(
                f"SASL mechanism requested by client is not supported for re-authentication of "
                f"mechanism '{self._before.mechanism}'"
            )
        if self._phase is not _Phase.TOKENS:
            return self._converse(frame)
        if self._in_requests:
            return self._authenticate(frame, now_ms)
        return self._raw_token(bytes(frame), now_ms)

    # -- until there is a mechanism

    def _converse(self, frame: memoryview) -> Frame:
        request = _read_header(frame)
        if request.api_key == ApiKey.API_VERSIONS:
            return self._versions(frame)
        if request.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(frame, request)
        raise CloseConnection(
            f"unexpected request {ApiKey(request.api_key).name} during SASL handshake"
        )

    def _versions(self, frame: memoryview) -> Frame:
        if self._phase is not _Phase.VERSIONS_OR_HANDSHAKE:
            raise CloseConnection("unexpected ApiVersions request during SASL handshake")
        reply = self._answer_versions(frame)
        if not int.from_bytes(reply[8:10]):  # else the client asks again, with a lower version
            self._phase = _Phase.HANDSHAKE
        return reply

    def _handshake(self, frame: memoryview, request: _Request) -> Frame:
        if request.api_version not in _HANDSHAKE_VERSIONS:
            raise InvalidFrame(f"SaslHandshake version {request.api_version} is not served")
        name = SaslHandshakeRequest.decode(frame, request.api_version, request.position).mechanism
        response = SaslHandshakeResponse(mechanisms=list(self._mechanisms))
        self._mechanism = self._mechanisms.get(name)
        if self._mechanism is None:
            if self._before is not None:
                raise CloseConnection(f"renewed by SASL mechanism {name!r}, which is not enabled")
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise AuthenticationFailed(
                f"Unsupported SASL mechanism {name!r}", _reply(request, response)
            )
        self._in_requests = request.api_version >= 1
        self._phase = _Phase.TOKENS
        if self._before is not None and self._before.mechanism != name:
            self._phase = _Phase.NOTHING
        self._exchange = self._mechanism.begin()
        return _reply(request, response)

    # -- tokens

    def _authenticate(self, frame: memoryview, now_ms: int) -> Frame:
        request = _read_header(frame)
        response = SaslAuthenticateResponse()
        if request.api_key != ApiKey.SASL_AUTHENTICATE:
            raise AuthenticationFailed(
                f"Unexpected Kafka request of type {ApiKey(request.api_key).name} during SASL "
                "authentication.",
                _illegal_state(request, frame),
            )
        if request.api_version not in _AUTHENTICATE_VERSIONS:
            raise InvalidFrame(f"SaslAuthenticate version {request.api_version} is not served")
        body = SaslAuthenticateRequest.decode(frame, request.api_version, request.position)
        try:
            response.auth_bytes = self._respond(bytes(body.auth_bytes), now_ms)
        except SaslError as problem:
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response.error_message = self._told(problem)
            raise AuthenticationFailed(str(problem), _reply(request, response)) from None
        if self.login is not None and self.login.lifetime_ms is not None:
            response.session_lifetime_ms = self.login.lifetime_ms
        return _reply(request, response)

    def _raw_token(self, token: bytes, now_ms: int) -> Frame | None:
        try:
            answer = self._respond(token, now_ms)
        except AuthenticationError as problem:
            raise AuthenticationFailed(str(problem)) from None
        except SaslError as problem:
            raise CloseConnection(str(problem)) from None
        reply = Frame()
        reply += struct.pack(">i", len(answer)) + answer
        return reply

    def _respond(self, token: bytes, now_ms: int) -> bytes:
        exchange, mechanism = self._exchange, self._mechanism
        assert exchange is not None
        assert mechanism is not None
        try:
            answer = exchange.respond(token)
        except BrokenExchange as problem:
            raise CloseConnection(str(problem)) from None
        if exchange.principal_name is not None:
            lifetime_ms = _lifetime_ms(mechanism.max_reauth_ms, exchange.expires_ms, now_ms)
            principal = f"{_KIND}:{exchange.principal_name}"
            login = Login(mechanism.name, principal, lifetime_ms, exchange.by_token)
            self._require_same_principal(login)
            self.login = login
        return answer

    def _require_same_principal(self, login: Login) -> None:
        before = self._before
        if before is not None and before.principal != login.principal:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{before.principal.replace(':', '.', 1)}: {login.principal.replace(':', '.', 1)}"
            )

    def _told(self, problem: SaslError) -> str:
        if isinstance(problem, AuthenticationError):
            return str(problem)
        assert self._mechanism is not None
        during = "authentication" if self._before is None else "re-authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
            f"{self._mechanism.name}"
        )


def _lifetime_ms(max_reauth_ms: int, expires_ms: int | None, now_ms: int) -> int | None:
    """How long a login holds: as its credential does, and `connections.max.reauth.ms` at most."""
    if expires_ms is None:
        return max_reauth_ms if max_reauth_ms > 0 else None
    left_ms = max(0, expires_ms - now_ms)
    return min(left_ms, max_reauth_ms) if max_reauth_ms > 0 else left_ms


def _read_header(frame: memoryview) -> _Request:
    """Raises InvalidFrame where this is no request of Kafka's."""
    try:
        api_key, api_version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
    except struct.error:
        raise InvalidFrame(f"request of {len(frame)} bytes is shorter than its header") from None
    position = _HEADER.size + max(client_id_size, 0)
    if position > len(frame):
        raise InvalidFrame(f"a client id of {client_id_size} bytes does not fit in the request")
    try:
        ApiKey(api_key)
    except ValueError:
        raise InvalidFrame(f"API key {api_key} is not one of Kafka's") from None
    if request_header_version(api_key, api_version) >= FLEXIBLE_HEADER:
        position = skip_tagged_fields(frame, position)
    return _Request(api_key, api_version, correlation_id, position)


def _illegal_state(request: _Request, frame: memoryview) -> Frame:
    """The answer to a request that has no place in a login, in its own form as far as that goes."""
    request_class(request.api_key).decode(frame, request.api_version, request.position)
    response = response_class(request.api_key)()
    put_error(response, ErrorCode.ILLEGAL_SASL_STATE)
    return _reply(request, response)


def _reply(request: _Request, response: Message) -> Frame:
    form = form_of(response, request.api_key, request.api_version)
    return encode_reply(form, request.correlation_id, response)
