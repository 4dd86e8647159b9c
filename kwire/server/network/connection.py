"""One client connection: it reads requests from a socket, has them handled, and sends the replies.

Replies leave in the order of the requests, as clients of Kafka expect.  This is the hot path of the
broker.  Its rules:

- A request starts no task.  The connection handles every complete frame in its buffer before it
  reads again, and sends their replies in one write.
- While nothing has to wait, no task of the connection runs.  kwire.server.network.readiness calls
  `readable`, a plain function, once for each read, so a client that sends without pause cannot keep
  other clients from being served.  The connection's own task runs (`_go_on`) when a reply takes
  time, when the kernel takes no more bytes, or when a large request needs memory.
- An idle connection has neither a task nor a buffer: most connections are idle.  The task starts
  when something has to wait, and ends when the reaper finds the connection idle (`shrink_if_idle`).
- A handler that has to wait returns an awaitable.  The connection sends the earlier replies first,
  and reads nothing until the awaitable is done, as Apache Kafka mutes a channel.  One exception: a
  Produce that only waits for replicas lets further Produce requests pass
  (kwire.server.network.owed).
- An invalid frame closes this connection only; the log names the client.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.primitives import DecodeError, Frame, Message
from kwire.requests.context import CloseConnection, Context, InvalidFrame
from kwire.requests.in_steps import WrittenInSteps
from kwire.requests.routes import (
    Binding,
    Handled,
    HandlerNotImported,
    UnservedRequest,
    bind,
    bind_imported,
    handle_guarded,
    import_in_thread,
)
from kwire.requests.shortcuts.registry import SHORTCUTS
from kwire.requests.shortcuts.shortcut import Exchange, Shortcut
from kwire.requests.uncommitted import UncommittedResponse
from kwire.server.network.header import FLEXIBLE_HEADER, read_client_id, skip_tagged_fields
from kwire.server.network.memory import FRAME_SIZE, NO_BUFFER, ReceivedBytes
from kwire.server.network.outbox import Outbox
from kwire.server.network.owed import OwedReplies
from kwire.server.network.readiness import fire_due_before
from kwire.server.network.replies import (
    encode_in_steps,
    encode_reply,
    failed,
    unsupported_api_versions,
)
from kwire.server.network.timely import LOOKED_AT_BYTES, TIMELY, has_timely_request

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.network.memory import MemoryPool
    from kwire.server.network.outbox import ColdPiece
    from kwire.server.network.readiness import ReadySockets, WaitingSockets
    from kwire.server.network.transport import Transport

log = logging.getLogger("kwire.network.connection")

_HEADER = struct.Struct(">hhih")  # api key, api version, correlation id, client id length
_HEADER_SIZE_BYTES = _HEADER.size
API_KEY_AT = 1
"""The low byte of the API key in a frame; the high byte is 0 for all keys of Kafka."""

_REPLIES_SIZE_BYTES_MAX = 256 * 1024
"""The most bytes of replies that are held for one write.  A client that asks for all metadata a
thousand times in one packet must not make the broker hold a thousand responses."""

FRAME_SIZE_BYTES_MIN = 14
"""Size, API key, version, correlation id, and the length of the client id."""

LogIn = Callable[["Connection"], Awaitable[bool]]
Outcome = Frame | Awaitable[Frame | None] | None


class Connection(ReceivedBytes):
    """Serves one accepted socket until either side closes it.

    activity   grows with each read and each write.  The listener's reaper compares it over time,
               and so finds idle connections without reading a clock on the hot path
    context    the circumstances of the request that is being handled
    gate       what every request has to pass (quotas, a login that expires); None: nothing
    waiting    whether a handler is working on a request, or replies are owed; the connection is
               not idle then
    """

    __slots__ = (
        "_broker",
        "_ended",
        "_log_in",
        "_nursery",
        "_on_end",
        "_outbox",
        "_owed",
        "_pending",
        "_ready",
        "_scope",
        "_shortcuts",
        "_transport",
        "activity",
        "context",
        "gate",
        "waiting",
    )

    may_owe = True
    """Whether replies may wait without a task, which not all kinds of connections can count."""

    def __init__(
        self,
        broker: Broker,
        transport: Transport,
        context: Context,
        memory: MemoryPool,
        ready: ReadySockets | WaitingSockets,
        log_in: LogIn | None = None,
    ) -> None:
        """`log_in` runs before the first request.  It returns False if the client went away."""
        super().__init__(memory, broker.config.socket_request_max_bytes)
        self._broker = broker
        self._log_in = log_in
        self._transport = transport
        self._ready = ready
        self._shortcuts: dict[int, Shortcut] = {}
        self.gate = broker.gate
        self.context = context
        self._outbox = Outbox(transport, ready)
        self._owed: OwedReplies | None = None
        self._pending: Awaitable[Frame | None] | None = None
        self._ended = False
        self._scope: trio.CancelScope | None = None  # that of the task; None without one
        self.activity = 0
        self.waiting = False

    @property
    def sending(self) -> bool:
        """Whether the kernel has not yet taken all bytes of the replies."""
        return bool(self._outbox)

    # -- from the first byte to the last

    def begin(self, nursery: trio.Nursery, on_end: Callable[[Connection], None]) -> None:
        """Serve until the client closes or breaks the protocol, or `close` is called.

        The tasks that this needs run in `nursery`; `on_end` is called at the end.
        """
        self._nursery, self._on_end = nursery, on_end
        if self._log_in is None:
            self._ready.watch(self._transport.fileno(), self)
        else:
            self.resume(None)

    def close(self) -> None:
        """End the connection, at once if it has no task."""
        if self._scope is not None:
            self._scope.cancel()
        elif self._ready.forget(self._transport.fileno()):
            self._release()

    def resume(self, failure: Exception | None) -> None:
        """Go on in a task where the steps that never wait have stopped, or failed."""
        if self._ended and failure is None:
            self._release()
            return
        self._scope = trio.CancelScope()
        self._nursery.start_soon(self._run, self._scope, failure, name=self.context.connection_id)

    async def _run(self, scope: trio.CancelScope, failure: Exception | None) -> None:
        """The connection's own task: it serves to the end, or until the connection is idle."""
        context, idle = self.context, False
        try:
            with scope:
                if self._log_in is not None:
                    if not await self._log_in(self):
                        return
                    self._log_in = None
                idle = await self._serve(failure)
        except (CloseConnection, DecodeError) as error:
            log.warning(
                "closing %s (client id %.100r): %s",
                context.connection_id,
                context.client_id,
                error,
            )
        except OSError as error:
            log.debug("connection %s: %s", context.connection_id, error)
        except Exception:
            log.exception("unhandled error on %s", context.connection_id)
        finally:
            if not idle:
                self._release()

    def _release(self) -> None:
        """Free what the connection holds; it has ended."""
        self._scope = None
        if self._owed is not None:
            self._owed.drop()
        self._shrink()
        self._transport.close()
        self._on_end(self)

    async def _serve(self, failure: Exception | None) -> bool:
        """Handle requests until the connection ends; return True if it is idle instead.

        The readiness task handles what it can at once; `_go_on` does the rest, which has to wait.
        Raises `failure`, CloseConnection and DecodeError, after the replies that are due are sent.
        """
        descriptor = self._transport.fileno()
        try:
            if failure is not None:
                raise failure
            while not self._ended:
                await self._go_on()
                if not await self._ready.serve(descriptor, self):
                    return True
            return False
        except (CloseConnection, DecodeError):
            await self._flush()  # the requests before the invalid frame get their replies
            raise

    def shrink_if_idle(self) -> bool:
        """Return the memory of earlier requests, and end the task of an idle connection.

        False if a request or a reply is under way.
        """
        if self._end or self.sending:
            return False
        self._shrink()
        self._outbox.shrink()
        if self._scope is not None and self._ready.dismiss(self._transport.fileno()):
            self._scope = None
        return True

    # -- steps that never wait

    def readable(self, *, hold: bool) -> bool:
        """Read once and handle the complete frames; with `hold`, `send` sends the replies later.

        Returns False when the connection's own task has to go on: see `_go_on`.
        """
        end = self._end
        try:
            # The buffer is nearly always empty here: a slice of the view would cost one object.
            received = self._transport.recv_into(self._view[end:] if end else self._view)
        except BlockingIOError:
            return True
        if not received:
            if self._view is NO_BUFFER:
                self._take_buffer()
                return self.readable(hold=hold)
            self._ended = True  # the client has closed its side
            return False
        self.activity += 1
        self._end = end + received
        # Shortcuts come first: a client that polls sends the same frame many times.  With a gate
        # they are used behind it (see `_answer`), as the gate has to see every request.  No reply
        # may overtake those that are owed.
        is_free = self.gate is None and not self.waiting
        replies = self._answer_repeated() if is_free else None
        if replies is not None:
            if hold:
                self._outbox.keep(replies)
            elif not self._outbox.send(replies):
                return False  # the socket's buffer is full: the task waits for room
        # The shortcuts may have left frames in the buffer that need a handler.
        return (self._start == self._end or self._answer_all(hold=hold)) and self._make_room()

    def send(self) -> bool:
        """Send the replies that `readable` held, and those owed that are complete.

        Returns False when the kernel does not take all of it.
        """
        if self._owed is not None:
            self._owed.move_to(self._outbox)
            self.waiting = bool(self._owed)
        return self._outbox.flush()

    def is_timely(self) -> bool:
        """Return whether an unread request can still put off a timer that is due."""
        data = bytes(self._view[self._start : min(self._end, self._start + LOOKED_AT_BYTES)])
        if len(data) < LOOKED_AT_BYTES:
            try:
                data += self._transport.peek(LOOKED_AT_BYTES)
            except OSError:  # nothing has arrived, or the client is gone; `readable` handles both
                return False
        return has_timely_request(data)

    def _answer_repeated(self) -> bytes | bytearray | None:
        """Return the replies to leading frames that shortcuts can answer, in one piece; None
        without any.

        Stops at the first frame that needs its handler, so the order of replies holds.
        """
        replies: list[Frame] = []
        buffer, view, start, filled = self._buffer, self._view, self._start, self._end
        while filled - start > FRAME_SIZE_BYTES_MIN:
            size: int = FRAME_SIZE.unpack_from(buffer, start)[0]
            end = start + 4 + size
            if end > filled or size < _HEADER_SIZE_BYTES:
                break  # incomplete, or invalid: `_next_frame` decides which
            frame = view[start + 4 : end]
            shortcut = self._shortcuts.get(frame[API_KEY_AT])
            if shortcut is None or (reply := shortcut.answer(frame, self._broker)) is None:
                break
            self._start = start = end
            replies.append(reply)
        if len(replies) > 1:
            return b"".join(replies)
        return replies[0] if replies else None

    def _answer_all(self, *, hold: bool = False) -> bool:
        """Handle every complete frame of the buffer and, unless `hold`, send the replies in order.

        Returns False when a reply is pending, or when the kernel does not take all replies.
        """
        outbox = self._outbox
        while True:
            if self._owed and self._must_wait(self._owed):
                self._pending = self._owed.settle(self._flush)
                return False
            if (frame := self._next_frame()) is None:
                break
            try:
                reply = self._answer(frame)
            except HandlerNotImported as missing:
                if not self._is_urgent(missing.api_key):
                    self._pending = self._answer_imported(missing, frame)
                    return False
                bind(missing.api_key, missing.api_version)
                reply = self._answer(frame)
            if reply is None:
                continue  # Produce with acks=0 has no response, and others are owed it
            if self._owed and isinstance(reply, Frame):
                self._owed.put(reply)
                continue
            if not isinstance(reply, Frame):
                # Later frames stay in the buffer: their replies must not overtake this one.
                self._pending = reply
                return False
            outbox.put(reply)
            if outbox.size_bytes > _REPLIES_SIZE_BYTES_MAX and not outbox.flush():
                return False
        return hold or (outbox.flush() if self._owed is None else self.send())

    def _must_wait(self, owed: OwedReplies) -> bool:
        """Whether the next request has to wait until no reply is owed: only Produce may overlap."""
        key_at = self._start + FRAME_SIZE.size + API_KEY_AT
        return key_at < self._end and (owed.is_full or self._buffer[key_at] != ApiKey.PRODUCE)

    # -- steps that wait

    async def _go_on(self) -> None:
        """Finish the pending reply and everything in the buffer, until more bytes are needed."""
        while True:
            if self._pending is not None:
                await self._finish(self._pending)
            await self._flush()
            if self._start != self._end:
                # This path does not pass readiness, which fires due timers before requests.
                fire_due_before(self._broker.node.timers, self)
            if self._answer_all():
                if not self._make_room():
                    await self._grow()
                    await self._flush()  # owed replies that were completed meanwhile
                return

    async def _finish(self, pending: Awaitable[Frame | None]) -> None:
        """Send the earlier replies, then wait for the pending one and put it into the outbox.

        A request that arrived whole is carried out even if its client is gone, as in Apache Kafka:
        so `pending` is awaited although the flush raised.
        """
        self._pending = None
        try:
            await self._flush()
        finally:
            self.waiting = True
            reply = await pending
            self.waiting = bool(self._owed)
        if reply is not None and self._owed:
            self._owed.put(reply)
        elif reply is not None:
            self._outbox.put(reply)

    async def _flush(self) -> None:
        """Send everything in the outbox.  Raises OSError if the client is gone."""
        outbox = self._outbox
        while not self.send():
            if outbox.paused:
                await trio.lowlevel.checkpoint()
            elif outbox.cold is None:
                await trio.lowlevel.wait_writable(self._transport)
            else:  # a read from disk would block the loop, so a thread does it
                cold, outbox.cold = outbox.cold, None
                await self._read_in(cold)
            self.activity += 1

    async def _read_in(self, cold: ColdPiece) -> None:
        """Let a thread read a piece of a file into memory."""
        await trio.to_thread.run_sync(cold.read_in, abandon_on_cancel=True)

    # -- for kwire.server.network.authentication, before the first request and on renewal

    async def receive(self) -> memoryview | None:
        """Wait for the next frame; None when the client has closed.  Raises InvalidFrame."""
        while (frame := self._next_frame()) is None:
            if not self._make_room():
                await self._grow()
            if not await self._read():
                return None
        return frame

    async def _read(self) -> int:
        """Read from the socket into the buffer; return the number of bytes, 0 at its end."""
        if self._view is NO_BUFFER:
            self._take_buffer()
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
        """The reply to a request whose handler never waits (ApiVersions)."""
        with suppress(UnservedRequest, struct.error):  # `_answer` decides about these
            bind(*_HEADER.unpack_from(frame)[:2])
        reply = self._answer(frame)
        assert isinstance(reply, Frame)
        return reply

    def now_ms(self) -> int:
        """The wall clock, in ms since the epoch."""
        return self._broker.now_ms()

    # -- requests

    def _answer(self, frame: memoryview) -> Outcome:
        """Decode one request and handle it.

        Returns the reply, an awaitable of it, or None for a request without a response.  Raises
        CloseConnection if the request cannot be read.
        """
        # 10: API key, version, correlation id and the size of the client id
        if len(frame) < 10:
            raise InvalidFrame(f"request of {len(frame)} bytes is shorter than its header")
        api_key, api_version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
        position = read_client_id(frame, client_id_size, self.context)
        try:
            binding = bind_imported(api_key, api_version)
        except UnservedRequest:
            # A newer client asks for the versions in a version of its own.  It gets an error with
            # the versions of this broker, in v0, and asks again (KIP-511).  Others are closed.
            if api_key == ApiKey.API_VERSIONS:
                if request_header_version(api_key, api_version) >= FLEXIBLE_HEADER:
                    skip_tagged_fields(frame, position)
                return unsupported_api_versions(correlation_id)
            raise
        context = self.context
        context.api_key, context.api_version = api_key, api_version
        if self.gate is not None:
            gate_reply = self.gate.admit(context, frame)
            if gate_reply is not None:  # the gate answers this request itself (a new login)
                return gate_reply
            shortcut = self._shortcuts.get(api_key)
            if shortcut is not None and (reply := shortcut.answer(frame, self._broker)) is not None:
                return self._report_reply(reply)
        try:
            if binding.flexible_request:
                position = skip_tagged_fields(frame, position)
            request, _ = binding.read(frame, position, len(frame))
        except (IndexError, struct.error) as error:
            raise InvalidFrame(f"{ApiKey(api_key).name} v{api_version}: {error}") from None
        return self._handle(binding, correlation_id, request, frame)

    def _is_urgent(self, api_key: int) -> bool:
        """Whether such a request may put off a timer that is due: it waits for no thread."""
        return api_key in TIMELY and self._broker.node.timers.are_due()

    async def _answer_imported(
        self, missing: HandlerNotImported, frame: memoryview
    ) -> Frame | None:
        """Let a thread import the handler, then answer the first request of its API key."""
        await import_in_thread(missing, guarded=self._broker.authorizer is not None)
        outcome = self._answer(frame)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """Call the request's handler and encode its response; see `_answer` for the result."""
        try:
            response = self._call_handler(binding, request)
        except CloseConnection:
            raise
        except Exception:
            # A defect of the broker.  Other requests of this client can still be served, so the
            # client gets UNKNOWN_SERVER_ERROR and stays connected.
            response = failed(binding, self.context)
        gate, context = self.gate, self.context
        # The usual case first.  Comparing classes is cheaper than asking whether it is awaitable.
        if response.__class__ is binding.response_class:
            # Before encoding: the gate writes throttle_time_ms into the response.
            throttle_ms = 0 if gate is None else gate.throttle_ms(context, response)
            reply = encode_reply(binding, correlation_id, response)
            # A reply with a throttle time holds for this request only.
            if binding.api_key in SHORTCUTS and not throttle_ms:
                exchange = Exchange(frame, binding.api_version, request, response, reply)
                self._learn(binding.api_key, exchange)
            return reply if gate is None else self._report_reply(reply, throttle_ms)
        if response is None:  # acks=0: no reply, but the client can be throttled by not reading
            return self._report_reply(None, 0 if gate is None else gate.throttle_ms(context, None))
        if self.may_owe and gate is None and isinstance(response, UncommittedResponse):
            return self._owe(binding, correlation_id, response)
        # The handler waits.  Nothing is read until it is done, so `context` stays this request's.
        if gate is not None:
            gate.parked(context)
        return self._wait(binding, correlation_id, response)

    def _owe(
        self, binding: Binding, correlation_id: int, uncommitted: UncommittedResponse
    ) -> Outcome:
        """Owe the reply; returns it if it is complete by now, or an awaitable without epoll."""
        if uncommitted.is_complete:
            return encode_reply(binding, correlation_id, uncommitted.response)
        if not self._ready.sends_soon:
            return self._wait(binding, correlation_id, uncommitted)
        if self._owed is None:
            send = partial(self._ready.send_soon, self._transport.fileno())
            self._owed = OwedReplies(self._broker.node.timers, send)
        self._owed.owe(binding, correlation_id, uncommitted)
        self.waiting = True
        return None

    def _call_handler(self, binding: Binding, request: Message) -> Handled:
        """What the handler returns, after the guard has checked the rights of the principal."""
        broker = self._broker
        if broker.authorizer is None:
            return binding.handle(broker, request, self.context)
        return handle_guarded(binding, broker, broker.authorizer, request, self.context)

    def _learn(self, api_key: int, exchange: Exchange[Any, Any]) -> None:
        """Remember a request and its reply, so that a shortcut answers the same bytes next time."""
        shortcut = self._shortcuts.get(api_key)
        if shortcut is None:
            shortcut = self._shortcuts[api_key] = SHORTCUTS[api_key]()
        shortcut.learn(exchange, self._broker)

    def forget(self) -> None:
        """Drop all shortcuts: rights or quotas changed, so the next requests need their handler."""
        self._shortcuts.clear()

    def _report_reply(self, reply: Frame | None, throttle_ms: int = 0) -> Outcome:
        """Report the reply to the gate.  Returns it, or an awaitable that also mutes the client."""
        if self.gate is not None:
            self.gate.answered(self.context, 0 if reply is None else reply.wire_size)
        if throttle_ms:
            from kwire.server.network.quota_gate import rest

            return rest(self, reply, throttle_ms, self._broker.config.connections_max_idle_ms)
        return reply

    async def _wait(
        self, binding: Binding, correlation_id: int, pending: Awaitable[Any]
    ) -> Frame | None:
        """Return the reply of a handler that waits; None for acks=0."""
        try:
            response = await pending
        except CloseConnection:
            raise
        except Exception:
            response = failed(binding, self.context)
        throttle_ms = 0 if self.gate is None else self.gate.throttle_ms(self.context, response)
        reply: Frame | None
        if isinstance(response, WrittenInSteps):
            reply = await encode_in_steps(binding, correlation_id, response)
        else:
            reply = None if response is None else encode_reply(binding, correlation_id, response)
        outcome = self._report_reply(reply, throttle_ms)
        return await outcome if isinstance(outcome, Awaitable) else outcome
