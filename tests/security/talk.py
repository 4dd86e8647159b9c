"""A SASL client that records a broker's answers, so that two brokers can be compared."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.codecs.api_keys import request_header_version, response_header_version
from kwire.codecs.messages import response_class
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import Message
from kwire.security.sasl.exchange import SaslError
from kwire.security.sasl.scram import ScramClient

DELAY_MS = 3000
"""`connection.failed.authentication.delay.ms` of the brokers that are compared."""
LATE_S = DELAY_MS / 1000 - 0.1
PATIENCE_S = 240.0

Addresses = dict[str, int]
"""Ports of 127.0.0.1 by the name of the listener."""


class Over(Exception):
    """The connection is closed; the rest of the dialogue is skipped."""


class Talk:
    """One connection; `told` has what the broker did in each step."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._correlation_id = 0
        self.told: list[Any] = []
        self.nonce = "kwire0nonce"

    def close(self) -> None:
        self._socket.close()

    # -- what is sent

    def frame(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        key = request.API_KEY
        assert key is not None
        header = struct.pack(">hhih", key, version, self._correlation_id, 4) + b"test"
        if request_header_version(key, version) >= 2:
            header += b"\0"
        return header + request.encode(version)

    def ask(self, request: Message, version: int) -> Message:
        """Send a request and record the answer."""
        assert request.API_KEY is not None
        reply = self.exchange(self.frame(request, version))
        start = 4 + (response_header_version(request.API_KEY, version) >= 1)
        response = response_class(request.API_KEY).decode(reply, version, start)
        self.told.append(shown(response))
        return response

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the answer, which is not recorded."""
        return self.send(struct.pack(">i", len(frame)) + frame)

    def send(self, data: bytes) -> bytes:
        began = time.monotonic()
        try:
            self._socket.sendall(data)
            size = int.from_bytes(self._read(4))
            reply = self._read(size)
        except (ConnectionError, EOFError):
            self._note_time(began)
            self.told.append("closed")
            raise Over from None
        self._note_time(began)
        return reply

    def _note_time(self, began: float) -> None:
        if time.monotonic() - began >= LATE_S:
            self.told.append("late")

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def note_whether_open(self) -> None:
        """Whether the broker keeps the connection open."""
        self._socket.settimeout(1.0)
        try:
            self.told.append("more" if self._socket.recv(1) else "closed")
        except TimeoutError:
            self.told.append("open")
        except ConnectionError:
            self.told.append("closed")

    # -- the steps of a login

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.ask(SaslHandshakeRequest(mechanism), version)

    def token(self, token: bytes, version: int = 2) -> bytes:
        """Send a token in a SaslAuthenticate request."""
        response: Any = self.ask(SaslAuthenticateRequest(token), version)
        return bytes(response.auth_bytes)

    def raw_token(self, token: bytes) -> bytes:
        """Send a token without a request header, as after SaslHandshake v0."""
        answer = self.exchange(token)
        self.told.append(masked(answer))
        return answer

    def plain(self, user: str = "alice", password: str | None = None, version: int = 1) -> None:
        self.handshake("PLAIN")
        self.token(f"\0{user}\0{password or user + '-secret'}".encode(), version)

    def scram(
        self,
        user: str = "alice",
        password: str = "alice-secret",
        mechanism: str = "SCRAM-SHA-256",
        *,
        change: Callable[[bytes], bytes] = bytes,
        raw: bool = False,
    ) -> None:
        """Authenticate by SCRAM; `change` changes the client's last message."""
        client = ScramClient(mechanism, user, password, self.nonce)
        self.handshake(mechanism, 0 if raw else 1)
        say = self.raw_token if raw else self.token
        try:
            last = client.respond(say(client.first()))
            assert last is not None
            client.respond(say(change(last)))
        except SaslError:
            self.told.append("no login")


class Dialogue(NamedTuple):
    """A dialogue, and the listener to which it connects."""

    name: str
    listener: str
    hold: Callable[[Talk], None]


def outcome(dialogue: Dialogue, addresses: Addresses) -> list[Any]:
    """What a broker does in `dialogue`, and whether the connection is open at the end."""
    talk = Talk(addresses[dialogue.listener])
    try:
        dialogue.hold(talk)
        talk.note_whether_open()
    except Over:
        return talk.told
    finally:
        talk.close()
    return talk.told


def shown(response: Message) -> Any:  # noqa: ANN401 - any shape
    """The parts of an answer that are compared."""
    name = type(response).__name__.removesuffix("Response")
    fields: Any = response
    if name == "SaslHandshake":
        return name, fields.error_code, sorted(fields.mechanisms)  # Kafka's come off a hash map
    if name == "SaslAuthenticate":
        return (
            name,
            fields.error_code,
            fields.error_message,
            masked(bytes(fields.auth_bytes)),
            fields.session_lifetime_ms,
        )
    return name, getattr(response, "error_code", None)


def masked(token: bytes) -> bytes:
    """A SCRAM message without the broker's random parts."""
    parts = token.split(b",")
    if token.startswith(b"r="):
        parts[0] = parts[0][: len("r=kwire0nonce")]
        parts[1] = parts[1][:2]
    elif token.startswith(b"v="):
        parts[0] = b"v="
    return b",".join(parts)
