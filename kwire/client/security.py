"""TLS and SASL logins of a client's connections, configured by Kafka's client properties."""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kwire.client.errors import AuthenticationFailed, Misuse
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.security.sasl.client import client_exchange
from kwire.security.sasl.exchange import ClientExchange, SaslError
from kwire.security.sasl.jaas import JaasError, parse_module
from kwire.security.sasl.oauthbearer import OAuthBearerClient
from kwire.security.tls.context import client_context
from kwire.security.tls.error import TlsError, reason_of
from kwire.security.tls.options import read_options

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

NONCE_BYTES: Final = 24
MECHANISM_DEFAULT: Final = "GSSAPI"
OAUTHBEARER: Final = "OAUTHBEARER"

RENEWED_AT: Final = 0.85
"""The part of a login's lifetime after which the client logs in again.  Kafka's clients do so
between 85 and 95 %."""

EXPIRED_TOKEN: Final = (
    "the delegation token in sasl.jaas.config has expired: `kwire tokens create` creates another"
)
REFUSED_TOKEN: Final = (
    "; the delegation token in sasl.jaas.config is wrong, or has expired and was removed: "
    "`kwire tokens create` creates another"
)

NO_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING")
"""OpenSSL's reasons for an error if the peer sends bytes that are not TLS, or none."""


class ClientSecurity:
    """The security that `security.protocol`, `ssl.*` and `sasl.*` of client properties describe.

    Raises Misuse if they are invalid.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are Kafka's client properties.  Raises Misuse if they are wrong or a file of
        them cannot be read."""
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise Misuse(
                f"unknown security.protocol={protocol}: it is one of {', '.join(PROTOCOLS)}"
            )
        self.protocol = protocol
        self.properties = dict(properties)
        self._context: ssl.SSLContext | None = None
        self.login: ClientLogin | None = None
        if protocol.startswith("SASL_"):
            self.login = ClientLogin(properties)
        if protocol.endswith("SSL"):
            try:
                self._context = client_context(read_options(properties))
            except TlsError as problem:
                raise Misuse(str(problem)) from None

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """The socket with TLS, or `plain` itself if the protocol has no TLS.

        Raises AuthenticationFailed, as Apache Kafka's client does, or OSError.
        """
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLError as problem:
            plain.close()
            hint = self._without_tls() if _is_no_tls(problem) else ""
            raise AuthenticationFailed(
                f"SSL handshake with {host} failed: {reason_of(problem, 'its')}{hint}"
            ) from problem
        except ConnectionError as problem:
            plain.close()
            raise ConnectionResetError(
                f"closed in the SSL handshake{self._without_tls()}"
            ) from problem

    def _without_tls(self) -> str:
        plain = "PLAINTEXT" if self.login is None else "SASL_PLAINTEXT"
        return f"; if the listener does not use TLS, set security.protocol={plain}"


def _is_no_tls(problem: ssl.SSLError) -> bool:
    """Whether the peer answers without TLS, or closes at once as a plaintext listener does.

    A listener without TLS reads the first bytes of the handshake as the size of a request, finds it
    too large, and closes the connection.
    """
    closed = isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    return closed or problem.reason in NO_TLS_REASONS


class LoginConnection(Protocol):
    """What a login needs of a kwire.client.connection.Connection."""

    @property
    def address(self) -> str: ...

    def call(self, request: Any) -> Any:  # noqa: ANN401 - the response belongs to the request
        """Sends a request and returns its response.  Raises ClientError."""

    def version_for(self, request: Any) -> int:  # noqa: ANN401 - any request
        """Return the version in which a request is sent.  Raises UnsupportedRequest."""


class ClientLogin:
    """The login that `sasl.mechanism` and `sasl.jaas.config` describe.

    Raises Misuse if they are invalid.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Reads the mechanism and the credentials (sasl.jaas.config).  Raises Misuse if they are
        missing or wrong, before any connection is opened."""
        self._properties = properties
        self._mechanism = properties.get("sasl.mechanism", MECHANISM_DEFAULT).strip()
        line = properties.get("sasl.jaas.config")
        if line is None:
            raise Misuse("sasl.jaas.config is not set: it has the user and password of the login")
        try:
            self._options = parse_module(line).options
        except JaasError as problem:
            raise Misuse(f"sasl.jaas.config: {problem}") from None
        self._by_token = self._options.get("tokenauth", "").lower() == "true"
        if self._mechanism != OAUTHBEARER:
            self._exchange()

    def _exchange(self) -> ClientExchange:
        """A new SASL exchange.  Raises Misuse, or AuthenticationFailed if it cannot get a token."""
        if self._mechanism == OAUTHBEARER:
            return OAuthBearerClient(self._token())
        try:
            return client_exchange(
                self._mechanism, self._options, lambda: secrets.token_urlsafe(NONCE_BYTES)
            )
        except SaslError as problem:
            raise Misuse(str(problem)) from None

    def _token(self) -> str:
        """Return an OAuth token, from the options or from the token endpoint.  Raises Misuse for
        wrong options, and AuthenticationFailed if no token can be obtained."""
        from kwire.security.oauth.retrieving import BadOptions, CannotFetch, token_of

        try:
            return token_of(self._properties, self._options, time.time_ns() // 1_000_000)
        except BadOptions as problem:
            raise Misuse(str(problem)) from None
        except CannotFetch as problem:
            raise AuthenticationFailed(f"cannot get a token: {problem}") from None

    def log_in(self, connection: LoginConnection) -> float:
        """Log in; returns the time on the monotonic clock at which the login has to be repeated.

        Raises AuthenticationFailed.
        """
        exchange = self._exchange()
        handshake = connection.call(SaslHandshakeRequest(self._mechanism))
        if handshake.error_code:
            raise AuthenticationFailed(self._not_enabled(connection, handshake))
        token: bytes | None = exchange.first()
        lifetime_ms = 0
        while token is not None:
            answer = connection.call(SaslAuthenticateRequest(token))
            if answer.error_code:
                hint = REFUSED_TOKEN if self._by_token else ""
                raise AuthenticationFailed(
                    f"{connection.address} refused the login: {answer.error_message}{hint}"
                )
            lifetime_ms = answer.session_lifetime_ms
            token = _next(connection, exchange, bytes(answer.auth_bytes))
        if self._by_token and not lifetime_ms and _has_lifetimes(connection):
            raise AuthenticationFailed(f"{connection.address}: {EXPIRED_TOKEN}")
        return time.monotonic() + RENEWED_AT * lifetime_ms / 1000 if lifetime_ms else float("inf")

    def _not_enabled(self, connection: LoginConnection, handshake: object) -> str:
        """Return why the broker refused the SASL handshake: it has no SASL on this listener, or
        does not enable this mechanism."""
        code: int = getattr(handshake, "error_code", 0)
        if code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return f"{connection.address} needs no login: set a security.protocol without SASL"
        enabled: list[str] = getattr(handshake, "mechanisms", [])
        return (
            f"Client SASL mechanism '{self._mechanism}' not enabled in the server, enabled "
            f"mechanisms are {enabled}"
        )


def _has_lifetimes(connection: LoginConnection) -> bool:
    """Whether the broker returns the lifetime of a login (KIP-368).

    A login with an expired token that is not removed yet succeeds with a lifetime of 0 ms, on
    Apache Kafka and on kwire.  The broker then closes the connection at the next request.
    """
    return connection.version_for(SaslAuthenticateRequest()) >= 1


def _next(connection: LoginConnection, exchange: ClientExchange, token: bytes) -> bytes | None:
    """The client's next token for the broker's token, or None at the end of the exchange."""
    try:
        return exchange.respond(token)
    except SaslError as problem:
        raise AuthenticationFailed(
            f"{connection.address} violates the login protocol: {problem}"
        ) from None
