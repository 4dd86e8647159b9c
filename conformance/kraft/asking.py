"""Requests of the steps to brokers: one connection for each, in the newest version."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import Message
from kwire.conformance.kraft_cluster import HOST
from kwire.conformance.wire.peer import ClientConnection, Reply

TIMEOUT_S = 120.0
TIMEOUT_MS = 60_000
CLIENT_ID = "steps"
VERSIONS: Mapping[type[Message], int] = {InitProducerIdRequest: 5}
"""The versions of requests whose newest version is not served by default."""
PASSWORD = "password"
USERS = ("admin", "alice")
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class AskFailed(RuntimeError):
    """A broker did not answer, or answered something else."""


def jaas_config() -> str:
    """Return the value of `plain.sasl.jaas.config` for brokers whose users are USERS."""
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
    return f'{_JAAS} username="admin" password="{PASSWORD}" {users};'


def ask(port: int, request: Message, user: str | None = None) -> Any:  # noqa: ANN401 - any response
    """Return a broker's response; `user` logs in first, at a port with SASL.  Raises AskFailed."""
    try:
        with closing(ClientConnection((HOST, port))) as connection:
            if user is not None:
                _call(connection, SaslHandshakeRequest("PLAIN"))
                secret = f"\0{user}\0{PASSWORD}".encode()
                answer = _call(connection, SaslAuthenticateRequest(secret))
                if answer.error_code:
                    raise AskFailed(f"{user} cannot log in: {answer!r}")
            return _call(connection, request)
    except OSError as error:
        raise AskFailed(f"port {port}: {error}") from error


def _call(connection: ClientConnection, request: Message) -> Any:  # noqa: ANN401 - any response
    assert request.API_KEY is not None
    version = VERSIONS.get(type(request), type(request).MAX_VERSION)
    connection.send(request.API_KEY, version, request.encode(version), client_id=CLIENT_ID)
    outcome = connection.receive(TIMEOUT_S)
    if not isinstance(outcome, Reply):
        raise AskFailed(f"{type(request).__name__}: {outcome!r}")
    return outcome.message
