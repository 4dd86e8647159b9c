"""A client's connection to a broker, and the outcomes of a request that it sends."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeAlias

from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import response_class
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, Frame, Message

Address = tuple[str, int]

CONNECT_TIMEOUT_S = 60.0
REPLY_TIMEOUT_S = 60.0
"""After this time a broker counts as silent.

A response takes far less, even on a busy machine, so only a missing response waits for so long.
"""
REPLY_SIZE_BYTES_MAX = 100 * 1024 * 1024
CLIENT_ID = "wire"
_SIZE = Struct(">i")
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response, decoded."""

    message: Message


@dataclass(frozen=True, slots=True)
class Closed:
    """The broker closed the connection instead of answering."""


@dataclass(frozen=True, slots=True)
class Silent:
    """No response came in time; the connection is still open."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are not a valid response to the request."""

    why: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that has no response, such as Produce with acks=0."""


Outcome: TypeAlias = Reply | Closed | Silent | Unreadable | Sent


def frame(
    api_key: int, version: int, correlation_id: int, body: bytes, client_id: str | None = CLIENT_ID
) -> bytes:
    """Return the frame of a request."""
    out = Frame()
    header = RequestHeader(api_key, version, correlation_id, client_id)
    header.write(out, request_header_version(api_key, version))
    return _SIZE.pack(len(out) + len(body)) + bytes(out) + body


class ClientConnection:
    """A client's connection, which sends requests and reads their responses in order.

    After Closed, Silent or Unreadable it cannot be used any more: `usable` is False.
    """

    def __init__(self, address: Address) -> None:
        self.usable = True
        self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._pending: list[tuple[int, int, int]] = []  # (api key, version, correlation id)

    def close(self) -> None:
        self.usable = False
        self._socket.close()

    def send(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        client_id: str | None = CLIENT_ID,
        answered: bool = True,
    ) -> None:
        """Send one request; if `answered`, `receive` reads its response."""
        self._correlation_id += 1
        if answered:
            self._pending.append((api_key, version, self._correlation_id))
        self._write(frame(api_key, version, self._correlation_id, body, client_id))

    def _write(self, data: bytes) -> None:
        """Send bytes; a failure shows at the next `receive`."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.usable = False  # the broker closed the connection: `receive` returns Closed

    def receive(self, timeout_s: float = REPLY_TIMEOUT_S) -> Outcome:
        """Return the outcome of the oldest request that waits for its response."""
        api_key, version, correlation_id = self._pending.pop(0)
        self._socket.settimeout(timeout_s)
        try:
            outcome = self._read(api_key, version, correlation_id)
        except TimeoutError:
            outcome = Silent()
        except OSError:
            outcome = Closed()
        if not isinstance(outcome, Reply):
            self.close()
        return outcome

    def _read(self, api_key: int, version: int, correlation_id: int) -> Outcome:
        """Return the outcome of the next response: a reply, closed, or unreadable.

        A size outside of the limits is unreadable, since the rest of the stream cannot be trusted.
        """
        head = self._exactly(_SIZE.size)
        if head is None:
            return Closed()
        size: int = _SIZE.unpack(head)[0]
        if not 0 <= size <= REPLY_SIZE_BYTES_MAX:
            return Unreadable(f"a response of {size} bytes")
        data = self._exactly(size)
        if data is None:
            return Closed()
        return read_reply(data, api_key, version, correlation_id)

    def _exactly(self, size: int) -> bytes | None:
        """Return the next `size` bytes; None if the broker closes the connection before."""
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)


def read_reply(data: bytes, api_key: int, version: int, correlation_id: int) -> Outcome:
    """Return the response in `data`, which must be one header and one body."""
    try:
        header, pos = ResponseHeader.read(data, response_header_version(api_key, version))
        if header.correlation_id != correlation_id:
            return Unreadable(f"correlation id {header.correlation_id}, not {correlation_id}")
        message, end = _read_body(data, api_key, version, pos)
    except DecodeError as error:
        return Unreadable(str(error))
    if end != len(data):
        return Unreadable(f"{len(data) - end} bytes after the message")
    return Reply(message)


def _read_body(data: bytes, api_key: int, version: int, pos: int) -> tuple[Any, int]:
    """Return the body of a response and the position after it."""
    kind = response_class(api_key)
    if api_key == ApiKey.API_VERSIONS and data[pos : pos + 2] == _UNSUPPORTED_VERSION:
        version = 0  # a broker refuses newer versions in version 0, which every client can read
    return kind.read(data, version, pos)
