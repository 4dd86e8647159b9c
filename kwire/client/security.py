"""How a client's connections are encrypted, and who it is, by Kafka's own client properties."""

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
"""The part of a login's time after which it is renewed; Kafka's clients do so between 85 and
95 %."""

EXPIRED_TOKEN: Final = (
    "the delegation token of sasl.jaas.config has expired; make another by `kwire tokens create`"
)
REFUSED_TOKEN: Final = (
    "; the delegation token of sasl.jaas.config is wrong, or it has expired and is removed: "
    "`kwire tokens create` makes another"
)

NO_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING")
"""OpenSSL's reasons where the peer's bytes are no TLS, or where there are none."""


class ClientSecurity:
    """What `security.protocol`, `ssl.*` and `sasl.*` of a client's properties ask for.

    Raises Misuse where they cannot be followed.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise Misuse(
                f"security.protocol={protocol} is not spoken: it is one of {', '.join(PROTOCOLS)}"
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
        """`plain` as it is to be spoken through, which is `plain` where nothing is encrypted.

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
        return f"; if that listener is without TLS, set security.protocol={plain}"


def _is_no_tls(problem: ssl.SSLError) -> bool:
    """Whether the peer answers without TLS, or closes at once as a plaintext listener does.

    A listener without TLS takes the size of a request from the first bytes of the handshake, finds
    it too large and closes.
    """
    closed = isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    return closed or problem.reason in NO_TLS_REASONS


class Asked(Protocol):
    """See kwire.client.connection.Connection."""

    @property
    def address(self) -> str: ...

    def call(self, request: Any) -> Any:  # noqa: ANN401 - the response belongs to the request
        """Raises ClientError."""

    def version_for(self, request: Any) -> int:  # noqa: ANN401 - any request
        """Raises UnsupportedRequest."""


class ClientLogin:
    """What `sasl.mechanism` and `sasl.jaas.config` ask for.

    Raises Misuse where they cannot be followed.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._mechanism = properties.get("sasl.mechanism", MECHANISM_DEFAULT).strip()
        line = properties.get("sasl.jaas.config")
        if line is None:
            raise Misuse("sasl.jaas.config is not set: it says who logs in, and how")
        try:
            self._options = parse_module(line).options
        except JaasError as problem:
            raise Misuse(f"sasl.jaas.config: {problem}") from None
        self._by_token = self._options.get("tokenauth", "").lower() == "true"
        if self._mechanism != OAUTHBEARER:
            self._exchange()

    def _exchange(self) -> ClientExchange:
        """Raises Misuse, and AuthenticationFailed where no token is to be had."""
        if self._mechanism == OAUTHBEARER:
            return OAuthBearerClient(self._token())
        try:
            return client_exchange(
                self._mechanism, self._options, lambda: secrets.token_urlsafe(NONCE_BYTES)
            )
        except SaslError as problem:
            raise Misuse(str(problem)) from None

    def _token(self) -> str:
        from kwire.security.oauth.retrieving import BadOptions, CannotFetch, token_of

        try:
            return token_of(self._properties, self._options, time.time_ns() // 1_000_000)
        except BadOptions as problem:
            raise Misuse(str(problem)) from None
        except CannotFetch as problem:
            raise AuthenticationFailed(f"no token is to be had: {problem}") from None

    def log_in(self, connection: Asked) -> float:
        """Until when, on the monotonic clock, the connection may be used before this is done again.

        Raises AuthenticationFailed.
        """
        exchange = self._exchange()
        shaken = connection.call(SaslHandshakeRequest(self._mechanism))
        if shaken.error_code:
            raise AuthenticationFailed(self._not_enabled(connection, shaken))
        token: bytes | None = exchange.first()
        lifetime_ms = 0
        while token is not None:
            answer = connection.call(SaslAuthenticateRequest(token))
            if answer.error_code:
                hint = REFUSED_TOKEN if self._by_token else ""
                raise AuthenticationFailed(
                    f"{connection.address} refuses the login: {answer.error_message}{hint}"
                )
            lifetime_ms = answer.session_lifetime_ms
            token = _next(connection, exchange, bytes(answer.auth_bytes))
        if self._by_token and not lifetime_ms and _tells_lifetime(connection):
            raise AuthenticationFailed(f"{connection.address}: {EXPIRED_TOKEN}")
        return time.monotonic() + RENEWED_AT * lifetime_ms / 1000 if lifetime_ms else float("inf")

    def _not_enabled(self, connection: Asked, shaken: object) -> str:
        code: int = getattr(shaken, "error_code", 0)
        if code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return f"{connection.address} asks nobody who it is: security.protocol is without SASL"
        enabled: list[str] = getattr(shaken, "mechanisms", [])
        return (
            f"Client SASL mechanism '{self._mechanism}' not enabled in the server, enabled "
            f"mechanisms are {enabled}"
        )


def _tells_lifetime(connection: Asked) -> bool:
    """Whether the broker's answer says for how long a login holds (KIP-368).

    A login by a token that has expired but is not removed yet succeeds for 0 ms, on Apache Kafka as
    on kwire, and the next request closes the connection.
    """
    return connection.version_for(SaslAuthenticateRequest()) >= 1


def _next(connection: Asked, exchange: ClientExchange, token: bytes) -> bytes | None:
    try:
        return exchange.respond(token)
    except SaslError as problem:
        raise AuthenticationFailed(
            f"{connection.address} does not log in as it should: {problem}"
        ) from None
