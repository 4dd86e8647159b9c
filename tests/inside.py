"""A broker on the test's own loop, and a client that speaks in raw frames."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import request_header_version, response_header_version
from kwire.codecs.messages import response_class
from kwire.codecs.primitives import Message
from kwire.server.server import serve
from kwire.settings import load

Response = TypeVar("Response", bound=Message)


PATIENCE_S = 240.0
"""How long a test waits for what takes milliseconds; a busy machine may let it wait for a while."""


async def until(condition: Callable[[], bool]) -> None:
    """Let the broker work until it is so."""
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is asked for are facts, not events
            await trio.sleep(0.001)


class Stalls:
    """How long the loop, which has all brokers of a test, stood still meanwhile."""

    EACH_S = 0.02

    def __init__(self) -> None:
        self.for_s = 0.0

    async def watch(self) -> None:
        while True:
            before_s = trio.current_time()
            await trio.sleep(self.EACH_S)
            self.for_s += max(0.0, trio.current_time() - before_s - 2 * self.EACH_S)


@asynccontextmanager
async def counting_stalls() -> AsyncIterator[Stalls]:
    """For limits of time on what a broker does: others may have the machine in between."""
    stalls = Stalls()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stalls.watch)
        yield stalls
        nursery.cancel_scope.cancel()


def is_waited_for(broker: Broker, topic: str, index: int = 0) -> bool:
    """Whether a fetch waits for records of the partition."""
    partition = broker.hosted.get(topic, index)
    return partition is not None and partition.is_awaited


@asynccontextmanager
async def running_broker(
    directory: Path, settings: Mapping[str, str] | None = None, stop: trio.Event | None = None
) -> AsyncIterator[Broker]:
    """A broker on a free port of 127.0.0.1; stopped cleanly at the end, or by setting `stop`."""
    config = load(
        None,
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        },
    )
    stop = trio.Event() if stop is None else stop
    async with trio.open_nursery() as nursery:
        broker = await nursery.start(serve, config, stop)
        try:
            yield broker
        finally:
            stop.set()
    while _clients:
        _clients.pop().stream.socket.close()


def port_of(broker: Broker) -> int:
    port: int = broker.config.listeners[0].port
    return port


_clients: list[RawClient] = []


class RawClient:
    """One connection; requests and replies as Kafka frames them."""

    def __init__(self, stream: trio.SocketStream, client_id: str | None = "test") -> None:
        self.stream = stream
        self.client_id = client_id
        self._correlation_id = 0
        self._received = bytearray()

    @classmethod
    async def connect(cls, broker: Broker, client_id: str | None = "test") -> RawClient:
        """A connection to `broker`, closed with the test's broker at the latest."""
        return cls.over(await trio.open_tcp_stream("127.0.0.1", port_of(broker)), client_id)

    @classmethod
    def over(cls, stream: trio.SocketStream, client_id: str | None = "test") -> RawClient:
        """A client on a connection that is there; closed as that of `connect`."""
        client = cls(stream, client_id)
        _clients.append(client)
        return client

    def frame(self, request: Message, version: int) -> bytes:
        """A request with the next correlation id."""
        self._correlation_id += 1
        assert request.API_KEY is not None
        client_id = None if self.client_id is None else self.client_id.encode()
        header = struct.pack(
            ">hhih",
            request.API_KEY,
            version,
            self._correlation_id,
            -1 if client_id is None else len(client_id),
        ) + (client_id or b"")
        if request_header_version(request.API_KEY, version) >= 2:
            header += b"\0"
        payload = header + request.encode(version)
        return struct.pack(">i", len(payload)) + payload

    async def send(self, request: Message, version: int) -> int:
        """Send a request; returns its correlation id."""
        await self.stream.send_all(self.frame(request, version))
        return self._correlation_id

    async def receive_frame(self) -> bytes | None:
        """The next reply without its size; None when the broker has closed the connection."""
        while True:
            if len(self._received) >= 4:
                size = int.from_bytes(self._received[:4])
                if len(self._received) >= size + 4:
                    frame = bytes(self._received[4 : size + 4])
                    del self._received[: size + 4]
                    return frame
            try:
                data = await self.stream.receive_some(1 << 20)
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self._received += data

    async def receive(self, kind: type[Response], version: int) -> tuple[int, Response]:
        """The next reply's correlation id and body."""
        frame = await self.receive_frame()
        assert frame is not None, "the broker closed the connection"
        assert kind.API_KEY is not None
        start = 4 + (response_header_version(kind.API_KEY, version) >= 1)
        return int.from_bytes(frame[:4]), kind.decode(frame, version, start)

    async def ask(self, request: Message, version: int, kind: type[Response]) -> Response:
        """Send a request and wait for its reply."""
        assert request.API_KEY is not None
        assert kind is response_class(request.API_KEY)
        correlation_id = await self.send(request, version)
        replied_to, response = await self.receive(kind, version)
        assert replied_to == correlation_id
        return response
