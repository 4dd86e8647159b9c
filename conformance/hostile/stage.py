"""Runs a hostile case on one broker: sends bytes unchanged, and records the outcomes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import response_class
from kwire.codecs.primitives import DecodeError
from kwire.conformance.wire.peer import (
    CONNECT_TIMEOUT_S,
    REPLY_SIZE_BYTES_MAX,
    Address,
    Closed,
    Outcome,
    Reply,
    Sent,
    Silent,
    Unreadable,
    read_reply,
)
from kwire.conformance.wire.stage import CaseStep, Stage

SILENCE_S = 1.5
"""After this time a broker counts as silent; a response usually takes hundreds of times less.

If only one broker is silent, the runner runs the case again with a longer timeout.
"""

PROBE_ID = 0x50524F42
PROBE = bytes.fromhex("0000000a 0012 0000") + PROBE_ID.to_bytes(4, "big") + b"\xff\xff"
"""An ApiVersions request of version 0, which a connection that is still open answers."""

_SIZE = Struct(">i")
_HEAD = Struct(">hhi")  # API key, version, correlation id


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The header fields of a sent request that are needed to read its response."""

    api_key: int
    version: int
    correlation_id: int


PROBE_REQUEST = SentRequest(ApiKey.API_VERSIONS, 0, PROBE_ID)


def sent_request_of(frame: bytes) -> SentRequest:
    """Return the header fields of a frame, which may be damaged; an API key of -1 if it has no
    header."""
    if len(frame) < _SIZE.size + _HEAD.size:
        return SentRequest(-1, 0, 0)
    return SentRequest(*_HEAD.unpack_from(frame, _SIZE.size))


@dataclass
class HostileStage(Stage):
    """A stage that also sends bytes that no client sends, each time on a new connection."""

    silence_s: float = SILENCE_S

    def spoiled(self, frame: bytes) -> None:
        """Send a damaged frame and a valid one behind it, which shows if the connection stays
        open."""
        self.deliver([frame + PROBE], [sent_request_of(frame), PROBE_REQUEST])

    def deliver(
        self,
        pieces: Iterable[bytes],
        requests: Sequence[SentRequest],
        *,
        pause_s: float = 0.0,
        half_close: bool = False,
    ) -> None:
        """Send the pieces with a pause after each, and record the outcome of each of the
        `requests`.

        A request without a response before one with a response has the outcome Sent. `half_close`
        closes the sending side after the last piece; the broker's close is then recorded, too.
        """
        with _Link(self.broker.address, self.silence_s) as link:
            link.send(pieces, pause_s, half_close)
            for request, outcome in link.outcomes(requests):
                self.steps.append(CaseStep(request.api_key, request.version, b"", outcome))
            if half_close:
                self.steps.append(CaseStep(-1, 0, b"", link.end()))


class _Link:
    """One connection; an error of sending shows when its responses are read."""

    def __init__(self, address: Address, silence_s: float) -> None:
        self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._silence_s = silence_s

    def __enter__(self) -> _Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, pieces: Iterable[bytes], pause_s: float, half_close: bool) -> None:
        """Send pieces of bytes with pauses in seconds; `half_close` ends this direction
        afterwards."""
        try:
            for piece in pieces:
                self._socket.sendall(piece)
                if pause_s:
                    time.sleep(pause_s)
            if half_close:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the broker has closed the connection, which `outcomes` reports

    def outcomes(self, requests: Sequence[SentRequest]) -> Iterable[tuple[SentRequest, Outcome]]:
        """Yield each request with its outcome, up to the first one after which nothing can come."""
        waiting = list(requests)
        while waiting:
            data = self._frame()
            if not isinstance(data, bytes):
                yield waiting[0], data
                return
            correlation_id = _SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else None
            while len(waiting) > 1 and waiting[0].correlation_id != correlation_id:
                if all(request.correlation_id != correlation_id for request in waiting):
                    break
                yield waiting.pop(0), Sent()
            request = waiting.pop(0)
            yield request, _read(data, request)

    def end(self) -> Outcome:
        """Closed if the broker closes its side, too."""
        data = self._frame()
        return Unreadable("an unexpected response") if isinstance(data, bytes) else data

    def _frame(self) -> bytes | Outcome:
        """Return the body of the next response, or the outcome if there is none."""
        self._socket.settimeout(self._silence_s)
        try:
            head = self._exactly(_SIZE.size)
            size = _SIZE.unpack(head)[0] if head is not None else 0
            if not 0 <= size <= REPLY_SIZE_BYTES_MAX:
                return Unreadable(f"a response of {size} bytes")
            data = None if head is None else self._exactly(size)
        except TimeoutError:
            return Silent()
        except OSError:
            return Closed()
        return Closed() if data is None else data

    def _exactly(self, size: int) -> bytes | None:
        """Return the next `size` bytes; None if the broker closes the connection before."""
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)


def _read(data: bytes, request: SentRequest) -> Outcome:
    """Return the outcome of a request with response `data`; its bytes if the API key is unknown."""
    try:
        response_class(request.api_key)
    except (KeyError, LookupError, DecodeError):
        return Unreadable(f"a response to a request of key {request.api_key}: {data[:50].hex()}")
    outcome = read_reply(data, request.api_key, request.version, request.correlation_id)
    if request == PROBE_REQUEST and isinstance(outcome, Reply):
        return Reply(type(outcome.message)())  # its content does not matter
    return outcome
