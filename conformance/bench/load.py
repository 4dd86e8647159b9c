"""The load generator: raw sockets, prepared frames, checked responses, and little work of its own.

Each function performs one kind of work for some seconds and returns a Sample. They run in this
process, apart from the broker; their cost is small and the same for every broker.
"""

from __future__ import annotations

import gc
import selectors
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns, sleep
from typing import NamedTuple, Self

from kwire.conformance.bench import frames
from kwire.conformance.bench.frames import (
    CORRELATION,
    CORRELATION_POS,
    OFFSET,
    PRODUCE_VERSION,
    FetchReply,
    PreparedFrame,
    ProduceReply,
    RequestFailed,
)

REPLY_TIMEOUT_S = 60  # a later response is an error, not a slow response
LEADER_TIMEOUT_S = 20
FETCH_WAIT_MS = 5_000
PARK_S = 0.0005  # so that the fetch waits at the broker before the record arrives

Address = tuple[str, int]


class Encrypted(tuple[str, int]):
    """The address of a TLS listener."""

    context: ssl.SSLContext

    def __new__(cls, host: str, port: int, context: ssl.SSLContext) -> Self:
        address = super().__new__(cls, (host, port))
        address.context = context
        return address


class Sample(NamedTuple):
    """The result of one turn; percentiles are None if single requests were not timed."""

    requests: int
    seconds: float
    size_bytes: int
    p50_us: float | None = None
    p99_us: float | None = None

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def mb_per_second(self) -> float:
        return self.size_bytes / self.seconds / 1e6


def connect(address: Address) -> socket.socket:
    """Return a connected socket, with TLS if the address says so.

    TCP_NODELAY is set: small requests must not wait for the acknowledgement of earlier ones.
    """
    sock = socket.create_connection(address, timeout=REPLY_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if isinstance(address, Encrypted):
        sock = address.context.wrap_socket(sock, server_hostname=address[0])
    sock.settimeout(None)  # blocking calls: a timeout would add a poll() to each of them
    return sock


def receive(sock: socket.socket, size_bytes: int) -> bytes:
    """Return exactly `size_bytes` bytes. Raises RequestFailed if the broker closes before."""
    parts = bytearray()
    while len(parts) < size_bytes:
        data = sock.recv(size_bytes - len(parts))
        if not data:
            raise RequestFailed("the broker closed the connection")
        parts += data
    return bytes(parts)


def receive_reply(sock: socket.socket) -> bytes:
    """Return one complete response with its size field."""
    size = receive(sock, 4)
    return size + receive(sock, int.from_bytes(size))


def first_reply(sock: socket.socket, topic: str, frame: bytes) -> ProduceReply:
    """Send a produce request until it succeeds, since a new topic may not have a leader yet."""
    deadline = perf_counter_ns() + LEADER_TIMEOUT_S * 1_000_000_000
    while True:
        sock.sendall(frame)
        data = receive_reply(sock)
        try:
            return ProduceReply(topic, data)
        except RequestFailed:
            if perf_counter_ns() > deadline:
                raise
            sleep(0.01)


def ask(address: Address, frame: PreparedFrame) -> bytes:
    """Send one request on a new connection; its response."""
    with connect(address) as sock:
        sock.sendall(frame.data)
        return receive_reply(sock)


@contextmanager
def _steady() -> Iterator[None]:
    """Disable garbage collection: the generator makes no cycles, so it would only add noise."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def percentile(ordered: list[int], share: float) -> float:
    """Return the value below which `share` of the sorted values lie."""
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])


def _sample(count: int, elapsed_ns: int, size_bytes: int, latencies_ns: list[int]) -> Sample:
    """Return the sample, with p50 and p99 in microseconds if latencies were measured."""
    if not latencies_ns:
        return Sample(count, elapsed_ns / 1e9, size_bytes)
    ordered = sorted(latencies_ns)
    p50, p99 = (percentile(ordered, share) / 1e3 for share in (0.50, 0.99))
    return Sample(count, elapsed_ns / 1e9, size_bytes, p50, p99)


def produce(
    address: Address,
    topic: str,
    batch: bytes,
    seconds: float,
    *,
    in_flight: int = 1,
    records_count: int = 1,
    partition: int = 0,
    acks: int = 1,
    version: int = PRODUCE_VERSION,
) -> Sample:
    """Keep `in_flight` produce requests unanswered on one connection.

    With one in flight, each request is timed. The partition must have no other producer, because
    the offsets are checked.
    """
    with connect(address) as sock, _steady():
        frame = frames.produce(topic, partition, batch, acks, version).data
        reply = first_reply(sock, topic, frame)
        pump = _Pump(sock, frame, reply, records_count, in_flight)
        latencies = pump.run(seconds)
    size_bytes = pump.counted * len(batch)
    return _sample(pump.counted, pump.elapsed_ns, size_bytes, latencies)


class _Pump:
    """The window of one connection: as many requests are sent in one call as responses came."""

    def __init__(
        self,
        sock: socket.socket,
        frame: bytes,
        reply: ProduceReply,
        records_count: int,
        in_flight: int,
    ) -> None:
        """Prepare a window of `in_flight` copies of one frame, and the expected correlation id and
        base offset of the next response."""
        self.sock = sock
        self.reply = reply
        self.in_flight = in_flight
        self.counted = 0
        self.elapsed_ns = 0
        self._frame_bytes = len(frame)
        self._window = memoryview(bytearray(frame * in_flight))
        self._replies = bytearray(reply.size_bytes * in_flight)
        self._next_correlation = 1
        self._due_correlation = 1
        self._due_offset = reply.base_offset + records_count
        self._records_count = records_count
        self._have = 0

    def run(self, seconds: float) -> list[int]:
        """Keep the window full for `seconds`; latencies in ns if one request is in flight."""
        latencies: list[int] = []
        timed = self.in_flight == 1
        start = sent_at = perf_counter_ns()
        deadline = start + int(seconds * 1e9)
        self.send(self.in_flight)
        while True:
            received = self.receive()
            now = perf_counter_ns()
            self.counted += received
            if timed and received:
                latencies.append(now - sent_at)
            if now >= deadline:
                break
            if received:
                sent_at = perf_counter_ns()
                self.send(received)
        self.elapsed_ns = now - start
        while self._due_correlation != self._next_correlation:
            self.receive()
        return latencies

    def send(self, count: int) -> None:
        """Send the next `count` requests in one call."""
        size = self._frame_bytes
        for pos in range(CORRELATION_POS, count * size, size):
            CORRELATION.pack_into(self._window, pos, self._next_correlation)
            self._next_correlation += 1
        self.sock.sendall(self._window[: count * size])

    def receive(self) -> int:
        """Read what is there, check the complete responses, and return their number."""
        with memoryview(self._replies) as view:
            received = self.sock.recv_into(view[self._have :])
        if not received:
            raise RequestFailed("the broker closed the connection")
        have = self._have + received
        size = self.reply.size_bytes
        whole = have - have % size
        for pos in range(0, whole, size):
            self.reply.check(self._replies, pos, self._due_correlation, self._due_offset)
            self._due_correlation += 1
            self._due_offset += self._records_count
        self._have = have - whole
        if self._have and whole:
            self._replies[: self._have] = self._replies[whole:have]
        return whole // size


def produce_on_many(
    addresses: Sequence[Address],
    topic: str,
    batch: bytes,
    seconds: float,
    *,
    acks: int = 1,
    version: int = PRODUCE_VERSION,
    first: int = 0,
) -> Sample:
    """Use one connection to the leader of each partition, with one request in flight on each.

    `first` is the partition of the first address; the others follow.
    """
    selector = selectors.DefaultSelector()
    pumps = []
    with _steady():
        for partition, address in enumerate(addresses, first):
            sock = connect(address)
            frame = frames.produce(topic, partition, batch, acks, version).data
            pump = _Pump(sock, frame, first_reply(sock, topic, frame), 1, 1)
            pumps.append(pump)
            selector.register(sock, selectors.EVENT_READ, pump)
        start = perf_counter_ns()
        deadline = start + int(seconds * 1e9)
        for pump in pumps:
            pump.send(1)
        count = 0
        while (now := perf_counter_ns()) < deadline or not count:
            for key, _ in selector.select():
                pump = key.data
                if pump.receive():
                    count += 1
                    pump.send(1)
        for pump in pumps:
            pump.receive()
            pump.sock.close()
        selector.close()
    return _sample(count, now - start, count * len(batch), [])


def fetch(
    address: Address,
    topic: str,
    offsets: list[int],
    seconds: float,
    *,
    max_bytes: int,
    partition: int = 0,
) -> Sample:
    """Fetch from one offset after another on one connection, and only read the responses."""
    prepared = frames.fetch(topic, partition, max_wait_ms=500, max_bytes=max_bytes)
    request = bytearray(prepared.data)
    reply = FetchReply(topic)
    buffer = bytearray(2 * max_bytes + 4096)
    view = memoryview(buffer)
    count = size_bytes = 0
    with connect(address) as sock, _steady():
        start = perf_counter_ns()
        deadline = start + int(seconds * 1e9)
        while (now := perf_counter_ns()) < deadline:
            OFFSET.pack_into(request, prepared.offset_pos, offsets[count % len(offsets)])
            CORRELATION.pack_into(request, CORRELATION_POS, count)
            sock.sendall(request)
            _receive_into(sock, view)
            if CORRELATION.unpack_from(buffer, 4)[0] != count:
                raise RequestFailed("a response to another request")
            size = reply.records_size(buffer)
            if size < max_bytes // 2:
                raise RequestFailed(f"{size} bytes of records instead of {max_bytes}")
            count += 1
            size_bytes += size
    return _sample(count, now - start, size_bytes, [])


def fetch_through(address: Address, topic: str, offsets: Iterable[int], *, max_bytes: int) -> None:
    """Fetch once from each of `offsets`, one request in flight; only the error is checked."""
    prepared = frames.fetch(topic, 0, max_wait_ms=500, max_bytes=max_bytes)
    request = bytearray(prepared.data)
    reply = FetchReply(topic)
    buffer = bytearray(3 * max_bytes)
    with connect(address) as sock, memoryview(buffer) as view:
        for offset in offsets:
            OFFSET.pack_into(request, prepared.offset_pos, offset)
            sock.sendall(request)
            _receive_into(sock, view)
            if not reply.records_size(buffer):
                raise RequestFailed(f"no records at offset {offset}")


def _receive_into(sock: socket.socket, view: memoryview) -> int:
    """Read one response of any size into `view`; return its size with the size field."""
    have = sock.recv_into(view)
    while have < 4:
        have += sock.recv_into(view[have:])
    end = 4 + int.from_bytes(view[:4])
    while have < end:
        received = sock.recv_into(view[have:end])
        if not received:
            raise RequestFailed("the broker closed the connection")
        have += received
    return end


def latency(address: Address, topic: str, batch: bytes, seconds: float) -> Sample:
    """Measure the times from sending a record to its arrival at a consumer whose fetch waits for
    it."""
    produce_frame = frames.produce(topic, 0, batch).data
    prepared = frames.fetch(topic, 0, max_wait_ms=FETCH_WAIT_MS, max_bytes=1 << 20)
    request = bytearray(prepared.data)
    fetched = FetchReply(topic)
    latencies: list[int] = []
    buffer = bytearray(1 << 16)
    view = memoryview(buffer)
    with connect(address) as producer, connect(address) as consumer, _steady():
        reply = first_reply(producer, topic, produce_frame)
        offset = reply.base_offset + 1
        start = perf_counter_ns()
        deadline = start + int(seconds * 1e9)
        while perf_counter_ns() < deadline:
            OFFSET.pack_into(request, prepared.offset_pos, offset)
            consumer.sendall(request)
            sleep(PARK_S)
            sent_at = perf_counter_ns()
            producer.sendall(produce_frame)
            _receive_into(consumer, view)
            latencies.append(perf_counter_ns() - sent_at)
            if fetched.records_size(buffer) != len(batch):
                raise RequestFailed("the fetch returned without the record")
            reply.check(bytearray(receive_reply(producer)), 0, 0, offset)
            offset += 1
        elapsed = perf_counter_ns() - start
    return _sample(len(latencies), elapsed, len(latencies) * len(batch), latencies)


def fill(
    address: Address,
    topic: str,
    batch: bytes,
    count: int,
    records_count: int,
    partition: int = 0,
    version: int = PRODUCE_VERSION,
) -> None:
    """Write `count` batches to one partition."""
    with connect(address) as sock:
        frame = frames.produce(topic, partition, batch, version=version).data
        pump = _Pump(sock, frame, first_reply(sock, topic, frame), records_count, 1)
        for _ in range(count - 1):
            pump.send(1)
            while not pump.receive():
                continue
