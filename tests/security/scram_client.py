"""A SCRAM client over plain sockets, and the rights that brokers report to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.codecs.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import Message
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.security.sasl.scram import ScramClient

SCRAM: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
PATIENCE_S: Final = 120.0


class NotLetIn(Exception):
    """The broker refuses the user or the password."""


def ask(peer: ClientConnection, request: Message, version: int) -> Message:
    assert request.API_KEY is not None
    peer.send(request.API_KEY, version, request.encode(version))
    outcome = peer.receive(PATIENCE_S)
    assert isinstance(outcome, Reply), outcome
    return outcome.message


@contextmanager
def logged_in(
    port: int, user: str, password: str, mechanism: str = SCRAM
) -> Iterator[ClientConnection]:
    """Authenticate.  Raises NotLetIn."""
    peer = ClientConnection(("127.0.0.1", port))
    try:
        ask(peer, SaslHandshakeRequest(mechanism), 1)
        client = ScramClient(mechanism, user, password, "kwire0nonce")
        token: bytes | None = client.first()
        while token is not None:
            reply = ask(peer, SaslAuthenticateRequest(token), 2)
            assert isinstance(reply, SaslAuthenticateResponse)
            if reply.error_code:
                raise NotLetIn(reply.error_message)
            token = client.respond(bytes(reply.auth_bytes))
        yield peer
    finally:
        peer.close()


def can_log_in(port: int, user: str, password: str, mechanism: str = SCRAM) -> bool:
    try:
        with logged_in(port, user, password, mechanism):
            return True
    except NotLetIn:
        return False


def rights(port: int, user: str, topic: str, password: str) -> frozenset[str]:
    """The operations that a broker allows a user on a topic; none if the topic is hidden."""
    named = MetadataRequestTopic(name=topic)
    with logged_in(port, user, password) as peer:
        asked = MetadataRequest([named], include_topic_authorized_operations=True)
        reply = ask(peer, asked, 9)
    assert isinstance(reply, MetadataResponse)
    found = reply.topics[0]
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return frozenset()
    assert not found.error_code, ErrorCode(found.error_code)
    bits = found.topic_authorized_operations
    return frozenset(each.name for each in AclOperation if bits & 1 << each)
