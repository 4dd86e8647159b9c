"""A client that sends SASL step by step, so that a test can change each step."""

from __future__ import annotations

import struct

from kwire.broker.broker import Broker
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.inside import RawClient

PLAIN_LINE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_bob="bob-secret";'
)
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_LINE,
    "connection.failed.authentication.delay.ms": "0",
}
"""Settings of a broker with users alice and bob, without a delay of failed logins."""


async def handshake(
    client: RawClient, mechanism: str = "PLAIN", version: int = 1
) -> SaslHandshakeResponse:
    return await client.ask(SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse)


async def authenticate(
    client: RawClient, token: bytes, version: int = 2
) -> SaslAuthenticateResponse:
    return await client.ask(SaslAuthenticateRequest(token), version, SaslAuthenticateResponse)


async def plain(
    client: RawClient, user: str = "alice", password: str | None = None, version: int = 2
) -> SaslAuthenticateResponse:
    """Authenticate by PLAIN, starting with the handshake."""
    assert not (await handshake(client)).error_code
    token = f"\0{user}\0{password or user + '-secret'}".encode()
    return await authenticate(client, token, version)


async def send_raw(client: RawClient, token: bytes) -> bytes | None:
    """Send a token without a header (SaslHandshake v0); return the answer, None if closed."""
    await client.stream.send_all(struct.pack(">i", len(token)) + token)
    return await client.receive_frame()


async def logged_in(broker: Broker, user: str = "alice") -> RawClient:
    """A client with the principal `User:<user>`, for tests of rights."""
    client = await RawClient.connect(broker)
    assert not (await plain(client, user)).error_code
    return client
