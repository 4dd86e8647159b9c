"""Connections that count and time their requests; they exist only in a broker with metrics.

Each overrides a few steps of a connection and writes to kwire.server.metrics.meters.  They combine
with TLS, and with the faults of a controlled broker.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import CloseConnection
from kwire.requests.handlers.fetching.fetch import replica_id
from kwire.requests.routes import handle_guarded
from kwire.requests.shortcuts.registry import SHORTCUTS
from kwire.requests.shortcuts.shortcut import Exchange
from kwire.server.metrics.clients import ClientKey, ClientLoad
from kwire.server.metrics.counting import OF_FOLLOWERS, counting, key_of
from kwire.server.metrics.meters import (
    FETCH_CONSUMER,
    FETCH_FOLLOWER,
    SLOW_NS,
    Meters,
    RequestCounts,
    request_name,
)
from kwire.server.metrics.shortcuts import MEASURED_SHORTCUTS, MeasuredShortcut
from kwire.server.metrics.slowest import SlowRequest
from kwire.server.network.connection import (
    API_KEY_AT,
    FRAME_SIZE_BYTES_MIN,
    Connection,
    LogIn,
    Outcome,
)
from kwire.server.network.memory import FRAME_SIZE
from kwire.server.network.replies import encode_reply, failed
from kwire.server.network.tls_connection import TlsConnection

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.routes import Binding, Handled
    from kwire.server.metrics.meters import ListenerMeter
    from kwire.server.network.outbox import ColdPiece

_KEY_AND_VERSION: Final = struct.Struct(">hh")
_SIZE_FIELD_BYTES: Final = FRAME_SIZE.size


@dataclass(slots=True)
class _Timed:
    """One timed request, from its arrival until its response is sent; times of the clock in ns."""

    counts: RequestCounts
    weight: int
    arrived: int
    began: int
    parked: int
    """When the handler returned: with the response, or with an awaitable of it."""
    ready: int
    """When the response was ready."""
    throttle_ns: int
    request_bytes: int
    response_bytes: int


class MeasuredPeer(Connection):
    """The base of all measured connections, which differ in what they are besides.

    load   requests and bytes since the last `fold`, for the client and the listener

    It has no `__slots__`, because two bases with slots cannot be combined.
    """

    may_owe = False

    def begin_measuring(self, meters: Meters) -> None:
        """Count from now on; call it once, before `begin`."""
        self.meters = meters
        self.load = ClientLoad()
        self._listener: ListenerMeter = meters.listener(self.context.listener)
        self._arrived = 0
        """When the broker began with the first of the requests that arrived together."""
        self._began = 0
        """When it began with the request that is being answered: when the one before was ready."""
        self._counts: RequestCounts | None = None
        """Those for the request whose handler was called last."""
        self._decided: tuple[int, int, int] | None = None
        """Of a throttled response: when it was ready, its throttle time, and its bytes."""
        self._unsent: list[_Timed] = []
        if self._log_in is not None:
            self._log_in = partial(_counted_login, self._log_in, self._listener)

    def fold(self) -> None:
        """Add what was counted since the last call to the meters of client and listener."""
        self._fold_shortcuts()
        load = self.load
        if not (load.requests or load.bytes_out or load.throttle_ns):
            return  # a request that waited counts its response and its throttle time later
        self.load = ClientLoad()
        listener, context = self._listener, self.context
        listener.requests += load.requests
        listener.bytes_in += load.bytes_in
        listener.bytes_out += load.bytes_out
        key = ClientKey(context.client_id or "", context.principal, context.client_host)
        self.meters.clients.add(key, load)

    def forget(self) -> None:
        """As Connection.forget; what the shortcuts have answered is counted before."""
        self._fold_shortcuts()
        super().forget()

    def _fold_shortcuts(self) -> None:
        shortcut: MeasuredShortcut
        for shortcut in self._shortcuts.values():  # type: ignore[assignment]  # all are measured
            if hits := shortcut.fold():
                self.load.requests += hits
                self.load.bytes_out += hits * shortcut.reply_bytes

    # -- one request

    def _answer(self, frame: memoryview) -> Outcome:
        """As Connection._answer; counts the request, and times it until its response is ready."""
        self._counts = self._decided = None
        outcome = super()._answer(frame)
        began, ready = self._began, self.meters.clock_ns()
        self._began, spent = ready, ready - began
        counts = self._counts or self._count_unhandled(frame)
        counts.requests += 1
        request_bytes, response_bytes = len(frame), 0
        load = self.load
        load.requests += 1
        load.bytes_in += request_bytes + _SIZE_FIELD_BYTES
        load.busy_ns += spent
        if outcome.__class__ is Frame:
            response_bytes = outcome.wire_size if outcome.regions else len(outcome)
            load.bytes_out += response_bytes
            counts.response_bytes += response_bytes
        elif outcome is not None:
            timed = _Timed(counts, 1, self._arrived, began, ready, 0, 0, request_bytes, 0)
            return self._later(outcome, timed)  # type: ignore[arg-type]  # the third kind
        meter = counts.meter
        meter.until_timed -= 1
        if meter.until_timed < 0 or spent > SLOW_NS:
            weight = 1 if spent > SLOW_NS else meter.timed_weight()
            sizes = request_bytes, response_bytes
            self._unsent.append(
                _Timed(counts, weight, self._arrived, began, ready, ready, 0, *sizes)
            )
        return outcome

    def answer_now(self, frame: memoryview) -> Frame:
        """As Connection.answer_now; the request comes during a login, before `_answer_all`."""
        self._arrived = self._began = self.meters.clock_ns()
        return super().answer_now(frame)

    def _later(
        self, pending: Awaitable[Frame | None], timed: _Timed
    ) -> Coroutine[Any, Any, Frame | None]:
        """Return what a request waits for, with its times."""
        return self._timed_later(
            pending if self._counts is not None else self._renewing(pending), timed
        )

    def _count_unhandled(self, frame: memoryview) -> RequestCounts:
        """Count the response to a request without a handler; returns the counts of its kind.

        A shortcut behind the gate has answered, or the gate has a new login, or it is ApiVersions
        of a version that does not exist yet.
        """
        api_key, version = _KEY_AND_VERSION.unpack_from(frame)
        counts = self.meters.counts.get(key_of(api_key, version))
        if counts is None:
            counts = self._new_counts(key_of(api_key, version), request_name(api_key), version)
        unknown = api_key == ApiKey.API_VERSIONS
        counts.meter.errors[ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.NONE] += 1
        return counts

    async def _renewing(self, pending: Awaitable[Frame | None]) -> Frame | None:
        """Await a new login of the client on its open connection, and count it."""
        try:
            reply = await pending
        except CloseConnection:
            self._listener.failed_logins += 1
            raise
        self._listener.renewals += 1
        return reply

    async def _timed_later(self, outcome: Awaitable[Frame | None], timed: _Timed) -> Frame | None:
        """Return the reply of a request that waits; its remote time ends when it is ready.

        If the client is throttled, `outcome` sends the reply and then rests: `_report_reply` has
        noted when the reply was ready.
        """
        reply = await outcome
        decided = self._decided
        if decided is None:
            timed.ready = self.meters.clock_ns()
            timed.response_bytes = 0 if reply is None else reply.wire_size
        else:
            timed.ready, timed.throttle_ns, timed.response_bytes = decided
            # Without a handler's wait the throttle time begins within the call.
            timed.ready = max(timed.ready, timed.parked)
            self.load.throttle_ns += timed.throttle_ns
        self.load.bytes_out += timed.response_bytes
        timed.counts.response_bytes += timed.response_bytes
        if decided is None and reply is not None:
            self._unsent.append(timed)
        else:  # it is sent already, or there is none
            self._note(timed, timed.ready, timed.ready)
        return reply

    def _report_reply(self, reply: Frame | None, throttle_ms: int = 0) -> Outcome:
        if throttle_ms:
            size_bytes = 0 if reply is None else reply.wire_size
            self._decided = self.meters.clock_ns(), throttle_ms * 1_000_000, size_bytes
        return super()._report_reply(reply, throttle_ms)

    def _counts_of(self, binding: Binding, request: Message) -> RequestCounts:
        """Return the counts for a request, and keep them until the next one."""
        api_key, version = binding.api_key, binding.api_version
        key = api_key << 16 | version  # as key_of, without a call
        if api_key == ApiKey.FETCH and replica_id(request, version) >= 0:  # type: ignore[arg-type]  # a FetchRequest
            key |= OF_FOLLOWERS
        counts = self.meters.counts.get(key)
        if counts is None:
            name = request_name(api_key)
            if api_key == ApiKey.FETCH:
                name = FETCH_FOLLOWER if key & OF_FOLLOWERS else FETCH_CONSUMER
            counts = self._new_counts(key, name, version)
        self._counts = counts
        return counts

    def _new_counts(self, key: int, name: str, version: int) -> RequestCounts:
        """Return new counts for requests with this name; `key` is that of `Meters.counts`."""
        meters = self.meters
        meter, api_key = meters.request(name), (key & ~OF_FOLLOWERS) >> 16
        count = counting(meters, meter, api_key, version, self._broker.metadata.topic_name)
        counts = meters.counts[key] = RequestCounts(meter, version, count)
        return counts

    def _call_handler(self, binding: Binding, request: Message) -> Handled:
        """As Connection._call_handler; counts the errors in the response."""
        counts = self._counts or self._counts_of(binding, request)
        try:
            response = super()._call_handler(binding, request)
        except CloseConnection:
            raise
        except Exception:
            counts.meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
            raise
        if response is None:
            return None
        if response.__class__ is binding.response_class:
            counts.count_response(request, response)
            return response
        return self._count_later(counts, request, response)

    async def _count_later(
        self, counts: RequestCounts, request: Message, pending: Awaitable[Any]
    ) -> Message | None:
        try:
            response: Message | None = await pending
        except CloseConnection:
            raise
        except Exception:
            counts.meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
            raise
        if response is not None:
            counts.count_response(request, response)
        return response

    # -- until the responses are sent

    def _answer_all(self, *, hold: bool = False) -> bool:
        """As Connection._answer_all; replies to timed requests are sent at once, to time that."""
        self._arrived = self._began = self.meters.clock_ns()
        done = super()._answer_all(hold=hold)
        if self._unsent:
            if done and hold:
                done = self._outbox.flush()
            if not self._outbox:
                self._note_sent()
        return done

    async def _flush(self) -> None:
        await super()._flush()
        if self._unsent:
            self._note_sent()

    async def _read_in(self, cold: ColdPiece) -> None:
        """As Connection._read_in; times the read from the disk."""
        before = self.meters.clock_ns()
        await super()._read_in(cold)
        self.meters.disk.read.observe(self.meters.clock_ns() - before)

    def _note_sent(self) -> None:
        """Note the times of all requests whose responses were in the outbox: they are sent."""
        now = self.meters.clock_ns()
        unsent, self._unsent = self._unsent, []
        last_ready = unsent[-1].ready
        for timed in unsent:
            self._note(timed, last_ready, now)

    def _note(self, timed: _Timed, sending: int, sent: int) -> None:
        """Add the times of a request to its meter; `sending` and `sent` are of its response."""
        meter, weight = timed.counts.meter, timed.weight
        queue, local = timed.began - timed.arrived, timed.parked - timed.began
        remote, total = timed.ready - timed.parked, sent - timed.arrived
        meter.request_bytes.observe(timed.request_bytes, weight)
        meter.local.observe(local, weight)
        meter.total.observe(total, weight)
        if queue:
            meter.queue.observe(queue, weight)
        if remote:
            meter.remote.observe(remote, weight)
        if timed.throttle_ns:
            meter.throttle.observe(timed.throttle_ns, weight)
        if sending > timed.ready:
            meter.response_queue.observe(sending - timed.ready, weight)
        if sent > sending:
            meter.response_send.observe(sent - sending, weight)
        if total > self.meters.slowest.floor:
            context = self.context
            slow = SlowRequest(
                at_ms=self._broker.now_ms(),
                name=meter.name,
                version=timed.counts.version,
                client_id=context.client_id,
                principal=context.principal,
                client_host=context.client_host,
                connection_id=context.connection_id,
                request_bytes=timed.request_bytes,
                response_bytes=timed.response_bytes,
                queue=queue,
                local=local,
                remote=remote,
                throttle=timed.throttle_ns,
                total=total,
            )
            self.meters.slowest.note(slow)


async def _counted_login(log_in: LogIn, meter: ListenerMeter, connection: Connection) -> bool:
    """Return whether the client logs in; counts that it did, or failed.

    A client that leaves during its login is not counted, except inside TLS, where most do so
    because of the certificate.
    """
    try:
        succeeds = await log_in(connection)
    except CloseConnection:
        meter.failed_logins += 1
        raise
    if succeeds:
        meter.logins += 1
    elif isinstance(connection, TlsConnection):
        meter.failed_logins += 1
    return succeeds


class _MeasuredShortcuts(MeasuredPeer):
    """The base of connections that have shortcuts: those of a broker that no test controls."""

    def begin_measuring(self, meters: Meters) -> None:
        super().begin_measuring(meters)
        self._turns = meters.turns
        self._timed_at = 0
        """The next read that is timed, by `activity`."""
        self._weight = 1
        """How many requests one of that read stands for."""

    def fold(self) -> None:
        """As MeasuredPeer.fold; times the next read when a slice of the window has begun.

        Otherwise the requests of a client that has become slow would not be timed for long.
        """
        super().fold()
        if self._turns != self.meters.turns:
            self._turns, self._timed_at, self._weight = self.meters.turns, 0, 1

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """As Connection._handle; the usual case is written here again, to save calls."""
        if self.gate is not None:
            return super()._handle(binding, correlation_id, request, frame)
        counts, broker = self._counts_of(binding, request), self._broker
        authorizer, context = broker.authorizer, self.context
        try:
            if authorizer is None:
                response = binding.handle(broker, request, context)
            else:
                response = handle_guarded(binding, broker, authorizer, request, context)
        except CloseConnection:
            raise
        except Exception:
            counts.meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
            return encode_reply(binding, correlation_id, failed(binding, context))
        if response.__class__ is binding.response_class:
            counts.count_response(request, response)
            reply = encode_reply(binding, correlation_id, response)
            if binding.api_key in SHORTCUTS:
                exchange = Exchange(frame, binding.api_version, request, response, reply)
                self._learn(binding.api_key, exchange)
            return reply
        if response is None:
            return None
        later = self._count_later(counts, request, response)
        return self._wait(binding, correlation_id, later)

    def _learn(self, api_key: int, exchange: Exchange[Any, Any]) -> None:
        shortcut: MeasuredShortcut | None = self._shortcuts.get(api_key)  # type: ignore[assignment]  # all are
        if shortcut is None:
            shortcut = self._shortcuts[api_key] = MEASURED_SHORTCUTS[api_key]()
        if shortcut.hits:
            self._fold_shortcuts()  # before another version is learnt
        assert self._counts is not None, "its handler was called"
        shortcut.learn_as(self._counts, exchange, self._broker)

    def _answer_repeated(self) -> bytes | bytearray | None:
        """As Connection._answer_repeated; counts the answers, and times some of the reads."""
        if self.activity >= self._timed_at:
            return self._answer_timed() if self._shortcuts else None
        replies: list[Frame] = []
        buffer, view, first, filled = self._buffer, self._view, self._start, self._end
        broker: Broker = self._broker
        shortcuts: dict[int, MeasuredShortcut] = self._shortcuts  # type: ignore[assignment]  # all are
        start = first
        while filled - start > FRAME_SIZE_BYTES_MIN:
            size: int = FRAME_SIZE.unpack_from(buffer, start)[0]
            end = start + 4 + size
            if end > filled or size < FRAME_SIZE_BYTES_MIN - 4:
                break
            frame = view[start + 4 : end]
            shortcut = shortcuts.get(frame[API_KEY_AT])
            if shortcut is None or (reply := shortcut.answer(frame, broker)) is None:
                break
            shortcut.hits += 1
            self._start = start = end
            replies.append(reply)
        if not replies:
            return None
        self.load.bytes_in += start - first
        return b"".join(replies) if len(replies) > 1 else replies[0]

    def _answer_timed(self) -> bytes | bytearray | None:
        """Answer as `_answer_repeated`, with times; sends the replies itself, to time that as well.

        Returns None, or empty bytes if the kernel has not taken all replies: then the connection
        goes on as after a send that it began.
        """
        clock_ns, weight = self.meters.clock_ns, self._weight
        arrived = began = clock_ns()
        shortcuts: dict[int, MeasuredShortcut] = self._shortcuts  # type: ignore[assignment]  # all are
        answered: list[_Timed] = []
        while (frame := self._next_repeatable()) is not None:
            shortcut = shortcuts.get(frame[API_KEY_AT])
            if shortcut is None or (reply := shortcut.answer(frame, self._broker)) is None:
                break
            now = clock_ns()
            shortcut.hits += 1
            self._start += len(frame) + _SIZE_FIELD_BYTES
            self.load.bytes_in += len(frame) + _SIZE_FIELD_BYTES
            self.load.busy_ns += (now - began) * weight
            self._outbox.keep(reply)
            sizes = len(frame), len(reply)
            answered.append(_Timed(shortcut.counts, weight, arrived, began, now, now, 0, *sizes))
            began = now
        if not answered:
            return None
        meter = answered[0].counts.meter
        if meter.exact_left > 0:
            meter.exact_left -= len(answered)
            self._weight = 1
        else:
            gap, self._weight = meter.next_gap()
            self._timed_at = self.activity + gap
        if not self._outbox.flush():  # the client does not read: how long it takes says nothing
            return b""
        self._unsent += answered
        self._note_sent()
        return None

    def _next_repeatable(self) -> memoryview | None:
        """The next complete frame, which stays in the buffer; None without any that is long
        enough."""
        start, filled = self._start, self._end
        if filled - start <= FRAME_SIZE_BYTES_MIN:
            return None
        size: int = FRAME_SIZE.unpack_from(self._buffer, start)[0]
        end = start + 4 + size
        if end > filled or size < FRAME_SIZE_BYTES_MIN - 4:
            return None
        return self._view[start + 4 : end]


class MeasuredConnection(_MeasuredShortcuts):
    """A plain connection."""


class MeasuredTlsConnection(_MeasuredShortcuts, TlsConnection):
    """A connection inside TLS."""
