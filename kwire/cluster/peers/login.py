"""How a broker proves to the others of its cluster who it is, where their listener asks for SASL.

By `sasl.mechanism.inter.broker.protocol`, with name and password of that mechanism's JAAS line on
the listener between brokers, or by OAUTHBEARER with a token (kwire.cluster.peers.token).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import NoToken
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
"""The part of a login's time after which a connection is made anew, before it is closed; Kafka's
clients log in again between 85 and 95 %."""


class PeerLogin:
    """What a connection to another broker begins with."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError where there is no name and password to log in with."""
        listener = config.inter_broker_listener
        self._mechanism: str = config.sasl_mechanism_inter_broker_protocol
        if self._mechanism not in security_of(config, listener).sasl_enabled_mechanisms:
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
        if self._token is None:
            return self._by_password()
        try:
            return await self._token.exchange()
        except NoToken as problem:
            raise connection.fail(f"there is no token to log in by: {problem}") from None

    async def log_in(self, connection: PeerConnection) -> float:
        """Until when, on trio's clock, the connection may be used.  Raises PeerError."""
        handshake = await connection.call(SaslHandshakeRequest(self._mechanism), 1)
        if handshake.error_code:
            raise connection.fail(f"it does not take SASL mechanism {self._mechanism}")
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
        try:
            return exchange.respond(token)
        except SaslError as problem:
            raise connection.fail(f"it does not log in as it should: {problem}") from None
