"""One client connection: bytes to frames to handlers to replies, in the client's order.

The hot path of the broker.  Its rules:

- Nothing is spawned for a request.  Every complete frame in the buffer is handled before the next
  trip to the kernel, and their replies leave in one write.
- As long as nothing must be waited for, no task runs: `readable` is a plain function that
  kwire.server.network.readiness calls, once for each read, so that a client that sends without
  pause cannot keep the others from being served.  The connection's task goes on (`_go_on`) where a
  reply takes time, the kernel has no room for more, or a large request needs memory.
- A handler that must wait gives back an awaitable; what was answered before it is sent first, and
  the connection reads nothing more until it is done, as Kafka mutes a channel.
- One bad frame ends this connection alone, and the log says whose it was.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable
from mmap import mmap
from typing import TYPE_CHECKING, Any

import trio

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.primitives import DecodeError, Frame, Message
from kwire.requests.context import CloseConnection, Context, InvalidFrame, InvalidSize
from kwire.requests.routes import Binding, Handled, UnsupportedRequest, bind, handle_guarded
from kwire.requests.shortcuts.registry import SHORTCUTS
from kwire.requests.shortcuts.shortcut import Exchange, Shortcut
from kwire.server.network.header import FLEXIBLE_HEADER, skip_tagged_fields
from kwire.server.network.outbox import Outbox
from kwire.server.network.readiness import fire_due_before
from kwire.server.network.replies import encode_reply, failed, unsupported_api_versions
from kwire.server.network.timely import LOOKED_AT_BYTES, has_timely_request

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.network.memory import MemoryPool
    from kwire.server.network.readiness import ReadySockets, WaitingSockets
    from kwire.server.network.transport import Transport

log = logging.getLogger("kwire.network.connection")

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")  # api key, api version, correlation id, client id length
_HEADER_SIZE_BYTES = _HEADER.size
_API_KEY_AT = 1  # its low byte, which is all there is to keys so far

BUFFER_SIZE_BYTES = 256 * 1024
"""What a connection holds while nothing large comes in: a producer's five batches of 16 kB in
flight arrive in one read.  It is a mapping, not a bytearray (which Python fills with zeros): pages
that nothing was read into are never taken from the system."""

_REPLIES_SIZE_BYTES_MAX = 256 * 1024
"""Replies wait for each other up to here: a client that asks for all metadata a thousand times in
one packet must not make the broker hold a thousand answers."""

_FRAME_SIZE_BYTES_MIN = 14
"""Its size, API key, version, correlation id and the size of a client id."""

LogIn = Callable[["Connection"], Awaitable[bool]]
Outcome = Frame | Awaitable[Frame | None] | None


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
        "_ended",
        "_log_in",
        "_memory",
        "_outbox",
        "_pending",
        "_ready",
        "_shortcuts",
        "_start",
        "_transport",
        "_view",
        "activity",
        "context",
        "frame_size_bytes_max",
        "gate",
        "scope",
        "waiting",
    )

    def __init__(
        self,
        broker: Broker,
        transport: Transport,
        context: Context,
        memory: MemoryPool,
        ready: ReadySockets | WaitingSockets,
        log_in: LogIn | None = None,
    ) -> None:
        """`log_in` comes before all else: False where the client goes without a name."""
        self._broker = broker
        self._log_in = log_in
        self._transport = transport
        self._memory = memory
        self._ready = ready
        self.frame_size_bytes_max: int = broker.config.socket_request_max_bytes
        self._buffer = mmap(-1, BUFFER_SIZE_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet handled
        self._end = 0  # first byte not yet filled
        self._client_id_bytes: bytes | None = None
        self._shortcuts: dict[int, Shortcut] = {}
        self.gate = broker.gate
        self.context = context
        self._outbox = Outbox(transport)
        self._pending: Awaitable[Frame | None] | None = None
        self._ended = False
        self.activity = 0
        self.waiting = False
        self.scope = trio.CancelScope()

    @property
    def sending(self) -> bool:
        """Whether a reply is on its way that the kernel has not taken yet."""
        return bool(self._outbox)

    async def run(self) -> None:
        """Serve until the client goes, misbehaves, or `scope` is cancelled."""
        context = self.context
        try:
            with self.scope:
                if self._log_in is not None:
                    if not await self._log_in(self):
                        return
                    await self._go_on()  # with what may have come behind the login
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
            self._transport.close()

    async def _serve(self) -> None:
        descriptor = self._transport.fileno()
        try:
            while True:
                await self._ready.serve(descriptor, self)
                if self._ended:
                    return
                await self._go_on()
        except (CloseConnection, DecodeError):
            await self._flush()  # what was asked before the bad frame is answered
            raise

    # -- what never waits

    def readable(self, *, hold: bool) -> bool:
        """Read once and answer; with `hold` the replies are left to `send`.

        False when something must be waited for: see `_go_on`.
        """
        end = self._end
        try:
            received = self._transport.recv_into(self._view[end:] if end else self._view)
        except BlockingIOError:
            return True
        if not received:
            self._ended = True
            return False
        self.activity += 1
        self._end = end + received
        ready = self._answer_repeated() if self.gate is None else None
        if ready is not None:
            if hold:
                self._outbox.keep(ready)
            elif not self._outbox.send(ready):
                return False
        return (self._start == self._end or self._answer_all(hold=hold)) and self._make_room()

    def send(self) -> bool:
        """Send what `readable` has held; False when there is no room for all of it."""
        return self._outbox.flush()

    def is_timely(self) -> bool:
        """Whether a request that can still put off a timer which is due waits to be read."""
        data = bytes(self._view[self._start : min(self._end, self._start + LOOKED_AT_BYTES)])
        if len(data) < LOOKED_AT_BYTES:
            try:
                data += self._transport.peek(LOOKED_AT_BYTES)
            except OSError:  # nothing is there, or nobody; `readable` will find out
                return False
        return has_timely_request(data)

    def _answer_repeated(self) -> bytes | bytearray | None:
        """Answer, in one piece, the frames that say again what was said before."""
        replies: list[Frame] = []
        buffer, view, start, filled = self._buffer, self._view, self._start, self._end
        while filled - start > _FRAME_SIZE_BYTES_MIN:
            size: int = _SIZE.unpack_from(buffer, start)[0]
            end = start + 4 + size
            if end > filled or size < _HEADER_SIZE_BYTES:
                break
            frame = view[start + 4 : end]
            shortcut = self._shortcuts.get(frame[_API_KEY_AT])
            if shortcut is None or (reply := shortcut.answer(frame, self._broker)) is None:
                break
            self._start = start = end
            replies.append(reply)
        if len(replies) > 1:
            return b"".join(replies)
        return replies[0] if replies else None

    def _answer_all(self, *, hold: bool = False) -> bool:
        """Handle every complete frame of the buffer and, unless `hold`, send the replies, in order.

        False when a reply, or room for the replies, must be waited for first.
        """
        outbox = self._outbox
        while (frame := self._next_frame()) is not None:
            reply = self._answer(frame)
            if reply is None:
                continue
            if not isinstance(reply, Frame):
                self._pending = reply
                return False
            outbox.put(reply)
            if outbox.size_bytes > _REPLIES_SIZE_BYTES_MAX and not outbox.flush():
                return False
        return hold or outbox.flush()

    # -- what waits

    async def _go_on(self) -> None:
        """Wait for what must be waited for, until only the client's next bytes are missing."""
        while True:
            if self._pending is not None:
                await self._finish(self._pending)
            await self._flush()
            if self._start != self._end:
                fire_due_before(self._broker.node.timers, self)
            if self._answer_all():
                if not self._make_room():
                    await self._grow()
                return

    async def _finish(self, pending: Awaitable[Frame | None]) -> None:
        """Send what is ready, then wait.  What came whole is carried out for who is gone, too."""
        self._pending = None
        try:
            await self._flush()
        finally:
            self.waiting = True
            reply = await pending
            self.waiting = False
        if reply is not None:
            self._outbox.put(reply)

    async def _flush(self) -> None:
        outbox = self._outbox
        while not outbox.flush():
            if outbox.cold is None:
                await trio.lowlevel.wait_writable(self._transport)
            else:
                cold, outbox.cold = outbox.cold, None
                await trio.to_thread.run_sync(cold.read_in, abandon_on_cancel=True)
            self.activity += 1

    # -- for kwire.server.network.authentication, while nothing is served

    async def receive(self) -> memoryview | None:
        """The next frame, waited for; None when the client has gone.  Raises InvalidFrame."""
        while (frame := self._next_frame()) is None:
            if not self._make_room():
                await self._grow()
            if not await self._read():
                return None
        return frame

    async def _read(self) -> int:
        while True:
            try:
                received = self._transport.recv_into(self._view[self._end :])
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._transport)
                continue
            self.activity += 1
            self._end += received
            return received

    async def reply(self, frame: Frame) -> None:
        """Send a reply."""
        self._outbox.put(frame)
        await self._flush()

    def answer_now(self, frame: memoryview) -> Frame:
        """The reply to a request whose handler never waits."""
        reply = self._answer(frame)
        assert isinstance(reply, Frame)
        return reply

    def now_ms(self) -> int:
        """The wall clock, in ms since the epoch."""
        return self._broker.now_ms()

    # -- frames

    def _next_frame(self) -> memoryview | None:
        """The next complete request, without its size; None when more bytes are needed."""
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        size: int = _SIZE.unpack_from(self._buffer, start)[0]
        if not 0 <= size <= self.frame_size_bytes_max:
            raise InvalidSize(
                f"request of {size} bytes; at most {self.frame_size_bytes_max} are allowed"
            )
        if available < size + 4:
            return None
        start += 4
        self._start = end = start + size
        return self._view[start:end]

    def _make_room(self) -> bool:
        """Keep the incomplete frame and leave room for what is missing of it.

        False when that takes a larger buffer, which `_grow` waits for.
        """
        start, have = self._start, self._end - self._start
        if not have:
            self._start = self._end = 0
            if len(self._buffer) > BUFFER_SIZE_BYTES and self._memory.limited:
                self._shrink()
            return True
        size_bytes = self._frame_size_bytes()
        capacity = len(self._buffer)
        if start + size_bytes <= capacity and self._end < capacity:
            return True
        if size_bytes > capacity and have * 2 > capacity:
            return False
        if start:
            self._view[:have] = self._view[start : self._end]
            self._start, self._end = 0, have
        return True

    def _frame_size_bytes(self) -> int:
        """Of the incomplete frame, as far as it is known."""
        if self._end - self._start < 4:
            return 4
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return size + 4

    async def _grow(self) -> None:
        """Twice the buffer; who announces 100 MB and sends ten bytes costs ten bytes."""
        have, capacity = self._end - self._start, len(self._buffer)
        grown = min(capacity * 2, self.frame_size_bytes_max + 4)
        await self._memory.acquire(grown - capacity)
        buffer = mmap(-1, grown)
        view = memoryview(buffer)
        view[:have] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, view
        self._start, self._end = 0, have

    def shrink_if_idle(self) -> bool:
        """Give back the memory that requests took, if this is between two; whether it was."""
        if self._end or self.sending:
            return False
        self._shrink()
        self._outbox.shrink()
        return True

    def _shrink(self) -> None:
        self._memory.release(len(self._buffer) - BUFFER_SIZE_BYTES)
        self._buffer = mmap(-1, BUFFER_SIZE_BYTES)
        self._view = memoryview(self._buffer)

    # -- requests

    def _answer(self, frame: memoryview) -> Outcome:
        """Decode one request and have it handled."""
        if len(frame) < 10:
            raise InvalidFrame(f"request of {len(frame)} bytes is shorter than its header")
        api_key, api_version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
        position = self._read_client_id(frame, client_id_size)
        try:
            binding = bind(api_key, api_version)
        except UnsupportedRequest:
            if api_key == ApiKey.API_VERSIONS:
                if request_header_version(api_key, api_version) >= FLEXIBLE_HEADER:
                    skip_tagged_fields(frame, position)
                return unsupported_api_versions(correlation_id)
            raise
        context = self.context
        context.api_key, context.api_version = api_key, api_version
        if self.gate is not None:
            taken = self.gate.admit(context, frame)
            if taken is not None:
                return taken
            shortcut = self._shortcuts.get(api_key)
            if shortcut is not None and (known := shortcut.answer(frame, self._broker)) is not None:
                return self._told(known)
        try:
            if binding.flexible_request:
                position = skip_tagged_fields(frame, position)
            request, _ = binding.read(frame, position, len(frame))
        except (IndexError, struct.error) as problem:
            raise InvalidFrame(f"{ApiKey(api_key).name} v{api_version}: {problem}") from None
        return self._handle(binding, correlation_id, request, frame)

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        try:
            response = self._handled(binding, request)
        except CloseConnection:
            raise
        except Exception:
            response = failed(binding, self.context)
        gate, context = self.gate, self.context
        if response.__class__ is binding.response_class:
            throttle_ms = 0 if gate is None else gate.throttle_ms(context, response)
            reply = encode_reply(binding, correlation_id, response)
            if binding.api_key in SHORTCUTS and not throttle_ms:
                exchange = Exchange(frame, binding.api_version, request, response, reply)
                self._learn(binding.api_key, exchange)
            return reply if gate is None else self._told(reply, throttle_ms)
        if response is None:
            return self._told(None, 0 if gate is None else gate.throttle_ms(context, None))
        if gate is not None:
            gate.parked(context)
        return self._wait(binding, correlation_id, response)

    def _handled(self, binding: Binding, request: Message) -> Handled:
        """Have it handled, as far as its sender may."""
        broker = self._broker
        if broker.authorizer is None:
            return binding.handle(broker, request, self.context)
        return handle_guarded(binding, broker, broker.authorizer, request, self.context)

    def _learn(self, api_key: int, exchange: Exchange[Any, Any]) -> None:
        shortcut = self._shortcuts.get(api_key)
        if shortcut is None:
            shortcut = self._shortcuts[api_key] = SHORTCUTS[api_key]()
        shortcut.learn(exchange, self._broker)

    def forget(self) -> None:
        """What was asked before may be answered otherwise now: it goes the thorough way again."""
        self._shortcuts.clear()

    def _told(self, reply: Frame | None, throttle_ms: int = 0) -> Outcome:
        if self.gate is not None:
            self.gate.answered(self.context, 0 if reply is None else reply.wire_size)
        if throttle_ms:
            from kwire.server.network.quota_gate import rest

            return rest(self, reply, throttle_ms, self._broker.config.connections_max_idle_ms)
        return reply

    async def _wait(
        self, binding: Binding, correlation_id: int, pending: Awaitable[Any]
    ) -> Frame | None:
        try:
            response = await pending
        except CloseConnection:
            raise
        except Exception:
            response = failed(binding, self.context)
        throttle_ms = 0 if self.gate is None else self.gate.throttle_ms(self.context, response)
        reply = None if response is None else encode_reply(binding, correlation_id, response)
        told = self._told(reply, throttle_ms)
        return await told if isinstance(told, Awaitable) else told

    def _read_client_id(self, frame: memoryview, size: int) -> int:
        """Note who asks, as long as it does not change; returns where the header goes on."""
        if size < 0:
            self._client_id_bytes = self.context.client_id = None
            return 10
        end = 10 + size
        if end > len(frame):
            raise InvalidFrame(f"a client id of {size} bytes does not fit in the request")
        client_id = bytes(frame[10:end])
        if client_id != self._client_id_bytes:
            self._client_id_bytes = client_id
            self.context.client_id = client_id.decode("utf-8", "replace")
        return end
