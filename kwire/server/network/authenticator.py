"""The SASL conversation with one client: frames in, frames out, and a login at the end.

The order of requests is that of Apache Kafka's SaslServerAuthenticator:

    ApiVersions (once, optional), SaslHandshake, then tokens until the exchange is done.

After SaslHandshake v1 the tokens are in SaslAuthenticate requests.  After v0 each frame is a bare
token, and a failure has no reply: the connection is closed.  Re-authentication (KIP-368) begins
with SaslHandshake, and may change neither the mechanism nor the principal.
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


class LoginFailed(Exception):
    """The authentication failed, and the connection has to be closed; the message is for the log.

    `reply`, if any, is sent before the close; both wait for
    `connection.failed.authentication.delay.ms`.
    """

    def __init__(self, why: str, reply: Frame | None = None) -> None:
        super().__init__(why)
        self.reply = reply


class Login(NamedTuple):
    """The result of a successful authentication.

    principal     in Kafka's form, `User:alice`
    lifetime_ms   the time until the login expires; None: it does not expire
    by_token      whether the client logged in by a delegation token
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
    """The position of the body in the frame."""


class _Phase(Enum):
    """The requests that are allowed next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    NOTHING = auto()
    """Re-authentication by another mechanism: the next frame fails the authentication."""


class Authenticator:
    """The conversation of one login; `login` is set when it has succeeded.

    `answer_versions` returns the broker's reply to an ApiVersions request.  `before` is the login
    that is renewed, None for the first login of a connection.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Mechanism],
        answer_versions: Callable[[memoryview], Frame],
        before: Login | None = None,
    ) -> None:
        """Begin the conversation; a renewal (`before`) must begin with SaslHandshake."""
        self._mechanisms = mechanisms
        self._answer_versions = answer_versions
        self._before = before
        self._phase = _Phase.HANDSHAKE if before else _Phase.VERSIONS_OR_HANDSHAKE
        self._mechanism: Mechanism | None = None
        self._exchange: ServerExchange | None = None
        self._in_requests = False
        self.login: Login | None = None

    def receive(self, frame: memoryview, now_ms: int) -> Frame | None:
        """Return the reply to a frame, or None if it has none.  `frame` has no size field.

        Raises AuthenticationFailed; raises CloseConnection if Apache Kafka closes without a delay.
        """
        if self._phase is _Phase.NOTHING:
            assert self._before is not None
            raise LoginFailed(
                f"SASL mechanism requested by client is not supported for re-authentication of "
                f"mechanism '{self._before.mechanism}'"
            )
        if self._phase is not _Phase.TOKENS:
            return self._converse(frame)
        if self._in_requests:
            return self._authenticate(frame, now_ms)
        return self._raw_token(bytes(frame), now_ms)

    # -- until the client has chosen a mechanism

    def _converse(self, frame: memoryview) -> Frame:
        """Return the reply to a request before the tokens: ApiVersions or SaslHandshake.

        Raises CloseConnection at any other request.
        """
        request = _read_header(frame)
        if request.api_key == ApiKey.API_VERSIONS:
            return self._versions(frame)
        if request.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(frame, request)
        raise CloseConnection(
            f"unexpected request {ApiKey(request.api_key).name} during SASL handshake"
        )

    def _versions(self, frame: memoryview) -> Frame:
        """Return the reply to ApiVersions, which may come only before SaslHandshake.

        Raises CloseConnection if it comes later.
        """
        if self._phase is not _Phase.VERSIONS_OR_HANDSHAKE:
            raise CloseConnection("unexpected ApiVersions request during SASL handshake")
        reply = self._answer_versions(frame)
        # With an error code (in bytes 8 and 9) the client sends ApiVersions again, in version 0.
        if not int.from_bytes(reply[8:10]):
            self._phase = _Phase.HANDSHAKE
        return reply

    def _handshake(self, frame: memoryview, request: _Request) -> Frame:
        """Return the reply to SaslHandshake, and begin the mechanism that it names.

        Raises LoginFailed with the reply for an unknown mechanism; CloseConnection if it is unknown
        in a renewal; InvalidFrame for an unknown version. From version 1 on, tokens come in
        SaslAuthenticate requests, before as bare frames.
        """
        if request.api_version not in _HANDSHAKE_VERSIONS:
            raise InvalidFrame(f"SaslHandshake version {request.api_version} is not served")
        name = SaslHandshakeRequest.decode(frame, request.api_version, request.position).mechanism
        response = SaslHandshakeResponse(mechanisms=list(self._mechanisms))
        self._mechanism = self._mechanisms.get(name)
        if self._mechanism is None:
            if self._before is not None:
                raise CloseConnection(f"renewed by SASL mechanism {name!r}, which is not enabled")
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise LoginFailed(f"Unsupported SASL mechanism {name!r}", _reply(request, response))
        self._in_requests = request.api_version >= 1
        self._phase = _Phase.TOKENS
        if self._before is not None and self._before.mechanism != name:
            self._phase = _Phase.NOTHING
        self._exchange = self._mechanism.begin()
        return _reply(request, response)

    # -- tokens

    def _authenticate(self, frame: memoryview, now_ms: int) -> Frame:
        """Return the reply to SaslAuthenticate, with the mechanism's next token.

        Raises LoginFailed with the reply if the login fails or another request comes; InvalidFrame
        for an unknown version. `now_ms` is the start of the session lifetime.
        """
        request = _read_header(frame)
        response = SaslAuthenticateResponse()
        if request.api_key != ApiKey.SASL_AUTHENTICATE:
            raise LoginFailed(
                f"Unexpected Kafka request of type {ApiKey(request.api_key).name} during SASL "
                "authentication.",
                _illegal_state(request, frame),
            )
        if request.api_version not in _AUTHENTICATE_VERSIONS:
            raise InvalidFrame(f"SaslAuthenticate version {request.api_version} is not served")
        body = SaslAuthenticateRequest.decode(frame, request.api_version, request.position)
        try:
            response.auth_bytes = self._respond(bytes(body.auth_bytes), now_ms)
        except SaslError as error:
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response.error_message = self._error_message(error)
            raise LoginFailed(str(error), _reply(request, response)) from None
        if self.login is not None and self.login.lifetime_ms is not None:
            response.session_lifetime_ms = self.login.lifetime_ms
        return _reply(request, response)

    def _raw_token(self, token: bytes, now_ms: int) -> Frame | None:
        """Return the mechanism's next token as a frame without a header (SaslHandshake v0).

        This form has no error codes, so a failure closes the connection: raises LoginFailed for
        wrong credentials, CloseConnection for any other SASL error.
        """
        try:
            answer = self._respond(token, now_ms)
        except AuthenticationError as error:
            raise LoginFailed(str(error)) from None
        except SaslError as error:
            raise CloseConnection(str(error)) from None
        reply = Frame()
        reply += struct.pack(">i", len(answer)) + answer
        return reply

    def _respond(self, token: bytes, now_ms: int) -> bytes:
        """Return the mechanism's answer to the client's token; set `login` once it is complete.

        Raises SaslError, or CloseConnection if the client breaks the exchange.
        """
        exchange, mechanism = self._exchange, self._mechanism
        assert exchange is not None
        assert mechanism is not None
        try:
            answer = exchange.respond(token)
        except BrokenExchange as error:
            raise CloseConnection(str(error)) from None
        if exchange.principal_name is not None:
            lifetime_ms = _lifetime_ms(mechanism.max_reauth_ms, exchange.expires_ms, now_ms)
            principal = f"{_KIND}:{exchange.principal_name}"
            login = Login(mechanism.name, principal, lifetime_ms, exchange.by_token)
            self._require_same_principal(login)
            self.login = login
        return answer

    def _require_same_principal(self, login: Login) -> None:
        """Raise AuthenticationError if a renewal has another principal than before.

        The text has `User.name` in place of `User:name`, as Kafka's has.
        """
        before = self._before
        if before is not None and before.principal != login.principal:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{before.principal.replace(':', '.', 1)}: {login.principal.replace(':', '.', 1)}"
            )

    def _error_message(self, error: SaslError) -> str:
        """Return the text for the client: only an AuthenticationError's own text may be sent."""
        if isinstance(error, AuthenticationError):
            return str(error)
        assert self._mechanism is not None
        during = "authentication" if self._before is None else "re-authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
            f"{self._mechanism.name}"
        )


def _lifetime_ms(max_reauth_ms: int, expires_ms: int | None, now_ms: int) -> int | None:
    """The lifetime of a login in ms: that of its credential, or `connections.max.reauth.ms`."""
    if expires_ms is None:
        return max_reauth_ms if max_reauth_ms > 0 else None
    left_ms = max(0, expires_ms - now_ms)
    return min(left_ms, max_reauth_ms) if max_reauth_ms > 0 else left_ms


def _read_header(frame: memoryview) -> _Request:
    """Return the header of a request.  Raises InvalidFrame if the frame is no request of Kafka."""
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
    """The reply to a request that is not allowed during a login: its response with an error."""
    request_class(request.api_key).decode(frame, request.api_version, request.position)
    response = response_class(request.api_key)()
    put_error(response, ErrorCode.ILLEGAL_SASL_STATE)
    return _reply(request, response)


def _reply(request: _Request, response: Message) -> Frame:
    form = form_of(response, request.api_key, request.api_version)
    return encode_reply(form, request.correlation_id, response)
