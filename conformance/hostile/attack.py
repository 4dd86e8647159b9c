"""Sends damaged frames to a broker over many connections at once and reads its responses."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

import trio

from kwire.codecs.api_keys import ApiKey, response_header_version
from kwire.codecs.messages import response_class
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError
from kwire.conformance.hostile.mutations import Attack, mutate
from kwire.conformance.hostile.requests import RequestMaker, ValidRequest

CONNECTIONS = 16
"""More connections than a broker has cores, but few enough that each one is served."""

VALID_SHARE = 0.1
"""The share of valid frames, which create the state that damaged frames may corrupt."""

_REPLY_WAIT_S = 0.05  # a damaged frame may never be answered
_VALID_REPLY_WAIT_S = 2.0  # a JoinGroup waits for other members
_REPLY_SIZE_BYTES_MAX = 100 * 1024 * 1024
_KEPT_FOR_REPORT = 64
_SIZE = Struct(">i")


@dataclass(slots=True)
class AttackOutcome:
    """The frames that were sent, by kind, and the responses."""

    sent: Counter[str] = field(default_factory=Counter)
    replies: int = 0
    closed: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    wrong_replies: list[str] = field(default_factory=list)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_FOR_REPORT))

    def __str__(self) -> str:
        """Return the counts of frames, replies and closed connections as one line."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.sent.items()))
        waiting = ", ".join(f"{count} {kind}" for kind, count in sorted(self.unanswered.items()))
        return (
            f"{self.sent.total()} frames on {self.connections} connections ({kinds}); "
            f"{self.replies} replies, {self.closed} connections closed by the broker, "
            f"no reply in time to {waiting or 'none'}"
        )


def plan(rng: random.Random, maker: RequestMaker, frames: int) -> Iterator[ValidRequest | Attack]:
    """Yield a valid request of every key and version, then damaged frames, up to `frames` in
    all."""
    opening = maker.all()[:frames]
    yield from opening
    for _ in range(frames - len(opening)):
        request = maker.draw()
        yield request if rng.random() < VALID_SHARE else mutate(rng, request.frame)


async def attack(
    host: str,
    port: int,
    maker: RequestMaker,
    rng: random.Random,
    frames: int,
    connections: int = CONNECTIONS,
) -> AttackOutcome:
    """Send `frames` frames. Raises OSError if the broker no longer accepts connections."""
    outcome = AttackOutcome()
    frames_left = plan(rng, maker, frames)
    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(_Attacker(host, port, outcome).run, frames_left)
    return outcome


class _Attacker:
    """Sends frames on one connection, and opens a new one when it is closed."""

    def __init__(self, host: str, port: int, outcome: AttackOutcome) -> None:
        self._host = host
        self._port = port
        self._outcome = outcome
        self._stream: trio.SocketStream | None = None

    async def run(self, frames: Iterator[ValidRequest | Attack]) -> None:
        """Send the frames one after another, on a new connection after each that has ended.

        A reply that cannot be decoded is kept for the report.
        """
        for frame in frames:
            if self._stream is None:
                self._stream = await trio.open_tcp_stream(self._host, self._port)
                self._outcome.connections += 1
            try:
                usable = await self._send(self._stream, frame)
            except (trio.BrokenResourceError, DecodeError) as problem:
                if isinstance(problem, DecodeError):
                    self._outcome.wrong_replies.append(str(problem))
                self._outcome.closed += 1
                usable = False
            if not usable:
                await trio.aclose_forcefully(self._stream)
                self._stream = None
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    async def _send(self, stream: trio.SocketStream, frame: ValidRequest | Attack) -> bool:
        """Send a frame; return whether the connection can be used again."""
        if isinstance(frame, ValidRequest):
            return await self._send_valid(stream, frame)
        outcome = self._outcome
        outcome.sent[frame.kind] += 1
        outcome.recent.append(f"{frame.kind}: {b''.join(frame.pieces)[:2000].hex()}")
        for piece in frame.pieces:
            await stream.send_all(piece)
            await trio.sleep(frame.pause_s)
        if frame.hangs_up:
            return False
        with trio.move_on_after(_REPLY_WAIT_S):
            return await self._receive(stream) is not None
        outcome.unanswered[frame.kind] += 1
        return False

    async def _send_valid(self, stream: trio.SocketStream, sent: ValidRequest) -> bool:
        """Send a valid request and check its reply; return False if the connection has ended.

        A missing reply is counted; the connection is then given up too.
        """
        outcome = self._outcome
        outcome.sent["valid"] += 1
        outcome.recent.append(f"valid {sent.api_key} v{sent.version}: {sent.frame[:2000].hex()}")
        await stream.send_all(sent.frame)
        if not sent.is_answered:
            return True
        with trio.move_on_after(_VALID_REPLY_WAIT_S):
            reply = await self._receive(stream)
            if reply is None:
                return False
            check_reply(sent, reply)
            return True
        outcome.unanswered[f"valid {ApiKey(sent.api_key).name}"] += 1
        return False

    async def _receive(self, stream: trio.SocketStream) -> bytes | None:
        """Return the next response, or None if the broker closed the connection."""
        data = await _receive_exactly(stream, _SIZE.size)
        if data is not None:
            size: int = _SIZE.unpack(data)[0]
            if not _SIZE.size <= size <= _REPLY_SIZE_BYTES_MAX:
                raise DecodeError(f"a response of {size} bytes")
            data = await _receive_exactly(stream, size)
        if data is None:
            self._outcome.closed += 1
            return None
        self._outcome.replies += 1
        return data


async def _receive_exactly(stream: trio.SocketStream, size_bytes: int) -> bytes | None:
    """Return the next `size_bytes` bytes; None if the broker closes the connection before."""
    data = bytearray()
    while len(data) < size_bytes:
        chunk = await stream.receive_some(size_bytes - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def check_reply(sent: ValidRequest, reply: bytes) -> None:
    """Check that `reply` is a complete response to `sent` in its version. Raises DecodeError."""
    key, version = sent.api_key, sent.version
    header, position = ResponseHeader.read(reply, response_header_version(key, version), 0)
    name = ApiKey(key).name
    if header.correlation_id != sent.correlation_id:
        raise DecodeError(f"the response to {name} v{version} has another correlation id")
    _, end = response_class(key).read(reply, version, position)
    if end != len(reply):
        raise DecodeError(f"{len(reply) - end} bytes follow the response to {name} v{version}")
