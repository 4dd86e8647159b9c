"""One client connection: bytes to frames to handlers to replies, in the client's order.

The hot path of the broker.  Its rules:

- One task a connection, nothing spawned for a request.  Every complete frame in the buffer is
  handled before the next trip to the kernel, and their replies leave in one gathered write.
- The socket is read and written directly; the task goes through trio's scheduler only when the
  kernel has nothing to read or no room to write.  It waits for readability before each read, so a
  client that sends without pause cannot keep the other tasks from running.
- A handler that must wait gives back an awaitable; what was answered before it is sent first, and
  the connection reads nothing more until it is done, as Kafka mutes a channel.
- One bad frame ends this connection alone, and the log says whose it was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
from collections.abc import Awaitable
from mmap import mmap
from typing import TYPE_CHECKING, Any

import trio

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Buffer, DecodeError, Frame, Message
from kwire.context import CloseConnection, Context, InvalidFrame
from kwire.log import Region
from kwire.repeated_produce import RepeatedProduce
from kwire.request_header import skip_tagged_fields
from kwire.routes import Binding, UnsupportedRequest, bind

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.memory import MemoryPool

log = logging.getLogger("kwire.connection")

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")  # api key, api version, correlation id, client id length
_REPLY = struct.Struct(">ii")  # size, correlation id
_EMPTY_REPLY = b"\0\0\0\0\0\0\0\0"
_EMPTY_FLEXIBLE_REPLY = _EMPTY_REPLY + b"\0"  # a response header v1 ends with its tagged fields

BUFFER_SIZE_BYTES = 256 * 1024
"""What a connection holds while nothing large comes in: a producer's five batches of 16 kB in
flight arrive in one read.  It is a mapping, not a bytearray (which Python fills with zeros): pages
that nothing was read into are never taken from the system."""

_REPLIES_SIZE_BYTES_MAX = 256 * 1024
"""Replies wait for each other up to here: a client that asks for all metadata a thousand times in
one packet must not make the broker hold a thousand answers."""

_FRAME_SIZE_BYTES_MIN = 14
"""Its size, API key, version, correlation id and the size of a client id."""

_GATHER_MAX = 512
"""Buffers in one sendmsg; IOV_MAX is 1024 on Linux."""


_READ_IN_MAX = 16 * 1024
"""Bytes of a file region that are read and sent with what surrounds them: up to here one read and
one send cost less than a sendfile between two sends, and the client is woken once."""

_PIECES_MAX = 64 * 1024
"""Bytes copied together for one send."""

_BUFFERS = (bytes, bytearray, memoryview)


class Connection:
    """Serves one accepted socket until either side ends it.

    `activity` grows with every read and write; the listener's reaper compares it over time to find
    idle and stuck connections without a clock on this path.
    """

    __slots__ = (
        "_broker",
        "_buffer",
        "_client_id_bytes",
        "_end",
        "_memory",
        "_repeated",
        "_size_bytes_max",
        "_socket",
        "_start",
        "_view",
        "activity",
        "context",
        "scope",
        "sending",
        "waiting",
    )

    def __init__(
        self,
        broker: Broker,
        client: socket.socket,
        context: Context,
        memory: MemoryPool,
    ) -> None:
        self._broker = broker
        self._socket = client
        self._memory = memory
        self._size_bytes_max: int = broker.config.socket_request_max_bytes
        self._buffer = mmap(-1, BUFFER_SIZE_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet handled
        self._end = 0  # first byte not yet filled
        self._client_id_bytes: bytes | None = None
        self._repeated = RepeatedProduce()
        self.context = context
        self.activity = 0
        self.sending = False
        self.waiting = False
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        """Serve until the client goes, misbehaves, or `scope` is cancelled."""
        context = self.context
        try:
            with self.scope:
                await self._serve()
        except (CloseConnection, DecodeError) as problem:
            log.warning(
                "closing %s (client id %.100r): %s",
                context.connection_id,
                context.client_id,
                problem,
            )
        except OSError as problem:
            log.debug("connection %s: %s", context.connection_id, problem)
        except Exception:
            log.exception("unhandled error on %s", context.connection_id)
        finally:
            self._memory.release(len(self._buffer) - BUFFER_SIZE_BYTES)
            self._socket.close()

    async def _serve(self) -> None:
        client = self._socket
        descriptor = client.fileno()  # trio asks a socket for it each time
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            try:
                received = client.recv_into(self._view[self._end :])
            except BlockingIOError:
                continue
            if received == 0:
                return
            self.activity += 1
            self._end += received
            if ready := self._answer_repeated():
                await self._send_bytes(ready, 0)
            if self._start != self._end:
                await self._answer_all()
            if self._start != self._end:
                await self._make_room()
                continue
            self._start = self._end = 0
            if len(self._buffer) > BUFFER_SIZE_BYTES and self._memory.limited:
                self._shrink()

    def _answer_repeated(self) -> bytes | Frame | None:
        """Answer, in one piece, the frames that say again what was said before."""
        replies: list[Frame] = []
        while self._end - self._start > _FRAME_SIZE_BYTES_MIN:
            start = self._start
            size: int = _SIZE.unpack_from(self._buffer, start)[0]
            end = start + 4 + size
            if end > self._end or size <= 0:
                break
            reply = self._repeated.answer(self._view[start + 4 : end], self._broker)
            if reply is None:
                break
            self._start = end
            replies.append(reply)
        if len(replies) > 1:
            return b"".join(replies)
        return replies[0] if replies else None

    async def _answer_all(self) -> None:
        """Handle every complete frame of the buffer and send the replies, in order.

        A frame that ends the connection does not take the replies to those before it along.
        """
        replies: list[Frame] = []
        held = 0
        try:
            while (frame := self._next_frame()) is not None:
                reply = self._answer(frame)
                if reply is None:
                    continue
                if not isinstance(reply, Frame):
                    ready, replies = replies, []
                    waited = await self._send_and_wait(ready, reply)
                    if waited is None:
                        continue
                    reply = waited
                replies.append(reply)
                held += len(reply)
                if held > _REPLIES_SIZE_BYTES_MAX:
                    await self._send(replies)
                    replies, held = [], 0
        except (CloseConnection, DecodeError):
            if replies:
                await self._send(replies)
            raise
        if replies:
            await self._send(replies)

    async def _send_and_wait(
        self, replies: list[Frame], pending: Awaitable[Frame | None]
    ) -> Frame | None:
        """Send what is ready, then wait.  A request that came whole is carried out even when its
        client turns out to be gone.
        """
        try:
            if replies:
                await self._send(replies)
        finally:
            self.waiting = True
            waited = await pending
            self.waiting = False
        return waited

    # -- frames

    def _next_frame(self) -> memoryview | None:
        """The next complete request, without its size; None when more bytes are needed."""
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        size: int = _SIZE.unpack_from(self._buffer, start)[0]
        if not 0 < size <= self._size_bytes_max:
            raise InvalidFrame(
                f"request of {size} bytes; socket.request.max.bytes allows {self._size_bytes_max}"
            )
        if available < size + 4:
            return None
        start += 4
        self._start = end = start + size
        return self._view[start:end]

    async def _make_room(self) -> None:
        """Keep the incomplete frame and leave room for what is missing of it.

        The buffer doubles only when it is full: a client that announces 100 MB and sends ten
        bytes costs ten bytes.
        """
        start, have = self._start, self._end - self._start
        size_bytes = 4 if have < 4 else _SIZE.unpack_from(self._buffer, start)[0] + 4
        capacity = len(self._buffer)
        if start + size_bytes <= capacity and self._end < capacity:
            return
        if size_bytes > capacity and have * 2 > capacity:
            grown = min(max(capacity * 2, BUFFER_SIZE_BYTES), self._size_bytes_max + 4)
            await self._memory.acquire(grown - capacity)
            buffer = mmap(-1, grown)
            view = memoryview(buffer)
            view[:have] = self._view[start : self._end]
            self._buffer, self._view = buffer, view
        elif start:
            self._view[:have] = self._view[start : self._end]
        self._start, self._end = 0, have

    def shrink_if_idle(self) -> None:
        """Give back what a large request took; called by the reaper between two requests."""
        if self._end == 0 and len(self._buffer) > BUFFER_SIZE_BYTES and not self.sending:
            self._shrink()

    def _shrink(self) -> None:
        self._memory.release(len(self._buffer) - BUFFER_SIZE_BYTES)
        self._buffer = mmap(-1, BUFFER_SIZE_BYTES)
        self._view = memoryview(self._buffer)

    # -- requests

    def _answer(self, frame: memoryview) -> Frame | Awaitable[Frame | None] | None:
        """Decode one request and have it handled."""
        if len(frame) < 10:
            raise InvalidFrame(f"request of {len(frame)} bytes is shorter than its header")
        api_key, api_version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
        position = self._read_client_id(frame, client_id_size)
        try:
            binding = bind(api_key, api_version)
        except UnsupportedRequest:
            if api_key == ApiKey.API_VERSIONS:
                return _unsupported_api_versions(correlation_id)
            raise
        context = self.context
        context.api_key = api_key
        context.api_version = api_version
        try:
            if binding.flexible_request:
                position = skip_tagged_fields(frame, position)
            request, _ = binding.read(frame, position, len(frame))
        except (IndexError, struct.error) as problem:
            raise InvalidFrame(f"{ApiKey(api_key).name} v{api_version}: {problem}") from None
        return self._handle(binding, correlation_id, request, frame)

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Frame | Awaitable[Frame | None] | None:
        try:
            response = binding.handle(self._broker, request, self.context)
        except CloseConnection:
            raise
        except Exception:
            response = self._failed(binding)
        if response is None:
            return None
        if response.__class__ is binding.response_class:
            reply = encode_reply(binding, correlation_id, response)
            if binding.api_key == ApiKey.PRODUCE:
                self._repeated.learn(
                    frame, binding.api_version, request, response, reply, self._broker
                )
            return reply
        return self._wait(binding, correlation_id, response)

    async def _wait(
        self, binding: Binding, correlation_id: int, pending: Awaitable[Any]
    ) -> Frame | None:
        try:
            response = await pending
        except CloseConnection:
            raise
        except Exception:
            response = self._failed(binding)
        return None if response is None else encode_reply(binding, correlation_id, response)

    def _failed(self, binding: Binding) -> Message:
        """A handler failed: a defect of ours.  Tell it in the log and, if it can be, the client.

        Raises InvalidFrame where the response has no place for an error of the whole request.
        """
        context = self.context
        name = ApiKey(binding.api_key).name
        log.exception(
            "unhandled error in %s v%d for client id %r on %s",
            name,
            binding.api_version,
            context.client_id,
            context.connection_id,
        )
        response = binding.response_class()
        if not hasattr(response, "error_code"):
            raise InvalidFrame(f"{name} v{binding.api_version} could not be answered") from None
        # Not every response has the field, so the type checker cannot be asked.
        setattr(response, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)  # noqa: B010 - see above
        return response

    def _read_client_id(self, frame: memoryview, size: int) -> int:
        """Note who asks, as long as it does not change; returns where the header goes on."""
        if size < 0:
            self._client_id_bytes = self.context.client_id = None
            return 10
        end = 10 + size
        client_id = bytes(frame[10:end])
        if client_id != self._client_id_bytes:
            self._client_id_bytes = client_id
            self.context.client_id = client_id.decode("utf-8", "replace")
        return end

    # -- replies

    async def _send(self, replies: list[Frame]) -> None:
        self.sending = True
        if len(replies) == 1 and not replies[0].regions:
            await self._send_bytes(replies[0], 0)
        else:
            plain: list[Frame] = []
            for reply in replies:
                if not reply.regions:
                    plain.append(reply)
                    continue
                await self._send_gathered(plain)
                plain = []
                await self._send_with_regions(reply)
            await self._send_gathered(plain)
        self.sending = False
        self.activity += 1

    async def _send_gathered(self, frames: list[Frame]) -> None:
        for first in range(0, len(frames), _GATHER_MAX):
            chunk = frames[first : first + _GATHER_MAX]
            await self._send_bytes(chunk[0] if len(chunk) == 1 else b"".join(chunk), 0)

    async def _send_with_regions(self, reply: Frame) -> None:
        """Send bytes and file regions in turn, small regions among the bytes."""
        pieces: list[Buffer] = []
        have = position = 0
        with memoryview(reply) as view:
            for at, region in reply.regions:
                if have > _PIECES_MAX:
                    await self._send_bytes(b"".join(pieces), socket.MSG_MORE)
                    pieces, have = [], 0
                pieces.append(view[position:at])
                position = at
                if isinstance(region, _BUFFERS):
                    pieces.append(region)
                    have += len(region)
                elif region.size_bytes <= _READ_IN_MAX:
                    pieces.append(region.read())
                    have += region.size_bytes
                else:
                    assert isinstance(region, Region)
                    await self._send_bytes(b"".join(pieces), socket.MSG_MORE)
                    pieces, have = [], 0
                    await self._send_file(region.fileno(), region.position, region.size_bytes)
            if pieces or position < len(view):
                pieces.append(view[position:])
                await self._send_bytes(b"".join(pieces), 0)

    async def _send_bytes(self, data: bytes | bytearray | memoryview, flags: int) -> None:
        client = self._socket
        try:
            sent = client.send(data, flags)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return
        with memoryview(data) as view:
            while sent < len(view):
                await trio.lowlevel.wait_writable(client)
                with contextlib.suppress(BlockingIOError):
                    sent += client.send(view[sent:], flags)
                    self.activity += 1

    async def _send_file(self, file: int, position: int, size_bytes: int) -> None:
        client = self._socket.fileno()
        end = position + size_bytes
        while True:
            try:
                sent = os.sendfile(client, file, position, end - position)
                if sent == 0:  # the length is already promised: only closing is honest now
                    raise InvalidFrame(f"segment is {end - position} bytes shorter than promised")
                position += sent
                self.activity += 1
                if position == end:
                    return
            except BlockingIOError:
                pass
            # A short write has filled the socket's buffer: trying again would only be refused.
            await trio.lowlevel.wait_writable(self._socket)


def encode_reply(binding: Binding, correlation_id: int, response: Message) -> Frame:
    """The whole reply: size, response header, body."""
    frame = Frame()
    frame += _EMPTY_FLEXIBLE_REPLY if binding.flexible_response else _EMPTY_REPLY
    binding.write(frame, response)
    size_bytes = frame.wire_size if frame.regions else len(frame)
    _REPLY.pack_into(frame, 0, size_bytes - 4, correlation_id)
    return frame


def _unsupported_api_versions(correlation_id: int) -> Frame:
    from kwire.handlers.api_versions import unsupported_version

    frame = Frame()
    frame += _EMPTY_REPLY
    unsupported_version().write(frame, 0)
    _REPLY.pack_into(frame, 0, len(frame) - 4, correlation_id)
    return frame
