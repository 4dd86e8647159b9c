"""Where a hostile case is played: bytes go out as they are, and what becomes of them is noted."""

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
from kwire.conformance.wire.stage import Stage, Step

SILENCE_S = 1.5
"""How long nothing may come back until that is the verdict: hundreds of times what a reply takes.
Where only one broker is silent the case is played again with more patience (`runner`)."""

PROBE_ID = 0x50524F42
PROBE = bytes.fromhex("0000000a 0012 0000") + PROBE_ID.to_bytes(4, "big") + b"\xff\xff"
"""ApiVersions, version 0: what a connection that serves on answers."""

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
    """The header fields of a frame, which may be damaged; an API key of -1 if it has no header."""
    if len(frame) < _SIZE.size + _HEAD.size:
        return SentRequest(-1, 0, 0)
    return SentRequest(*_HEAD.unpack_from(frame, _SIZE.size))


@dataclass
class HostileStage(Stage):
    """A stage that also sends bytes which no client sends, each time on a connection of its own."""

    silence_s: float = SILENCE_S

    def spoiled(self, frame: bytes) -> None:
        """One frame, and a sound one behind it: is the first answered, does the connection last?"""
        self.deliver([frame + PROBE], [sent_request_of(frame), PROBE_REQUEST])

    def deliver(
        self,
        pieces: Iterable[bytes],
        asked: Sequence[SentRequest],
        *,
        pause_s: float = 0.0,
        half_close: bool = False,
    ) -> None:
        """Send the pieces with a pause behind each; note what each of the `asked` gets.

        What has no reply while a later one has is noted as such. `half_close` ends our side behind
        the last piece, and the broker's own end is noted too.
        """
        with _Link(self.broker.address, self.silence_s) as link:
            link.send(pieces, pause_s, half_close)
            for one, outcome in link.outcomes(asked):
                self.steps.append(Step(one.api_key, one.version, b"", outcome))
            if half_close:
                self.steps.append(Step(-1, 0, b"", link.end()))


class _Link:
    """One connection; a failure to send is seen when its replies are read."""

    def __init__(self, address: Address, silence_s: float) -> None:
        self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._silence_s = silence_s

    def __enter__(self) -> _Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, pieces: Iterable[bytes], pause_s: float, half_close: bool) -> None:
        try:
            for piece in pieces:
                self._socket.sendall(piece)
                if pause_s:
                    time.sleep(pause_s)
            if half_close:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the broker has hung up, which `outcomes` notes

    def outcomes(self, asked: Sequence[SentRequest]) -> Iterable[tuple[SentRequest, Outcome]]:
        """Each request's outcome, up to the first behind which nothing can come."""
        waiting = list(asked)
        while waiting:
            data = self._frame()
            if not isinstance(data, bytes):
                yield waiting[0], data
                return
            found = _SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else None
            while len(waiting) > 1 and waiting[0].correlation_id != found:
                if all(one.correlation_id != found for one in waiting):
                    break
                yield waiting.pop(0), Sent()
            one = waiting.pop(0)
            yield one, _read(data, one)

    def end(self) -> Outcome:
        """Closed once the broker has ended its side as well."""
        data = self._frame()
        return Unreadable("more than was asked for") if isinstance(data, bytes) else data

    def _frame(self) -> bytes | Outcome:
        self._socket.settimeout(self._silence_s)
        try:
            head = self._exactly(_SIZE.size)
            size = _SIZE.unpack(head)[0] if head is not None else 0
            if not 0 <= size <= REPLY_SIZE_BYTES_MAX:
                return Unreadable(f"a reply of {size} bytes")
            data = None if head is None else self._exactly(size)
        except TimeoutError:
            return Silent()
        except OSError:
            return Closed()
        return Closed() if data is None else data

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)


def _read(data: bytes, asked: SentRequest) -> Outcome:
    """The reply; of a key that nobody knows, its bytes."""
    try:
        response_class(asked.api_key)
    except (KeyError, LookupError, DecodeError):
        return Unreadable(f"an answer to a request of key {asked.api_key}: {data[:50].hex()}")
    outcome = read_reply(data, asked.api_key, asked.version, asked.correlation_id)
    if asked == PROBE_REQUEST and isinstance(outcome, Reply):
        return Reply(type(outcome.message)())  # that there is one is what counts
    return outcome
