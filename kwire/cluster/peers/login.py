"""PeerLogin: SASL authentication of this broker on connections to other brokers.

The mechanism is `sasl.mechanism.inter.broker.protocol`.  The user name and password are in the JAAS
entry of the inter-broker listener.  OAUTHBEARER takes a token instead (kwire.cluster.peers.token).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import NoBrokerToken
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.security.listener_sasl import NONCE_BYTES, OAUTHBEARER, login_module, module_of
from kwire.security.sasl.client import client_exchange
from kwire.security.sasl.exchange import ClientExchange, SaslError
from kwire.settings import ConfigError
from kwire.settings.listener_security import security_of

if TYPE_CHECKING:
    from kwire.cluster.peers.connection import PeerConnection
    from kwire.cluster.peers.token import BrokerToken
    from kwire.settings import BrokerConfig

RENEWED_AT: Final = 0.85
"""Part of a login's lifetime after which this broker opens a new connection, before the other
broker closes the old one.  Kafka's clients log in again after 85 to 95 %."""


class PeerLogin:
    """Logs in on each new connection to another broker."""

    def __init__(self, config: BrokerConfig, controllers: str | None = None) -> None:
        """Log in on the inter-broker listener, or on the listener `controllers` of controllers.

        Raises ConfigError if the settings lack the mechanism, or its name and password.
        """
        listener = controllers or config.inter_broker_listener
        self._mechanism: str = (
            config.sasl_mechanism_controller_protocol
            if controllers
            else config.sasl_mechanism_inter_broker_protocol
        )
        enabled = security_of(config, listener).sasl_enabled_mechanisms
        if not controllers and self._mechanism not in enabled:
            raise ConfigError(
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
                "when SASL is used for inter-broker communication"
            )
        wanted = module_of(self._mechanism)
        self._options = login_module(config, listener, self._mechanism, wanted).options
        self._token: BrokerToken | None = None
        if self._mechanism == OAUTHBEARER:
            from kwire.cluster.peers.token import BrokerToken

            self._token = BrokerToken(config, listener, self._options)
            return
        try:
            self._by_password()
        except SaslError as problem:
            raise ConfigError(f"brokers cannot log in to each other: {problem}") from None

    def _by_password(self) -> ClientExchange:
        return client_exchange(
            self._mechanism, self._options, lambda: secrets.token_urlsafe(NONCE_BYTES)
        )

    async def _begin(self, connection: PeerConnection) -> ClientExchange:
        """Return a new SASL exchange, by token if tokens are configured, or by password.

        Raises PeerError, and closes the connection, if there is no token.
        """
        if self._token is None:
            return self._by_password()
        try:
            return await self._token.exchange()
        except NoBrokerToken as problem:
            raise connection.fail(f"no token to log in with: {problem}") from None

    async def log_in(self, connection: PeerConnection) -> float:
        """Log in; returns the time on trio's clock until which the connection may be used.

        Raises PeerError.
        """
        handshake = await connection.call(SaslHandshakeRequest(self._mechanism), 1)
        if handshake.error_code:
            raise connection.fail(f"it does not support SASL mechanism {self._mechanism}")
        exchange = await self._begin(connection)
        token: bytes | None = exchange.first()
        version = connection.version_for(SaslAuthenticateRequest(), None)
        lifetime_ms = 0
        while token is not None:
            answer = await connection.call(SaslAuthenticateRequest(token), version)
            if answer.error_code:
                raise connection.fail(f"it refuses the login: {answer.error_message}")
            lifetime_ms = answer.session_lifetime_ms
            token = self._next(connection, exchange, bytes(answer.auth_bytes))
        if not lifetime_ms:
            return float("inf")
        return trio.current_time() + RENEWED_AT * lifetime_ms / 1000

    def _next(
        self, connection: PeerConnection, exchange: ClientExchange, token: bytes
    ) -> bytes | None:
        """Return the next token to send; None after the last one.

        `token` is the other broker's.  If it is not valid, the connection is closed, and PeerError
        raised.
        """
        try:
            return exchange.respond(token)
        except SaslError as problem:
            raise connection.fail(f"its SASL response is not valid: {problem}") from None
