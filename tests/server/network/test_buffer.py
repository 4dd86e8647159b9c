"""A connection's buffer: requests are cut anywhere, and what is not there yet costs nothing."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.codecs.primitives import Buffer
from kwire.requests.context import Context
from kwire.server.network import listener
from kwire.server.network.connection import Connection
from kwire.server.network.memory import BUFFER_SIZE_BYTES, MemoryPool
from kwire.server.network.readiness import ReadySockets
from tests.inside import RawClient, running_broker, until
from tests.requests.handlers.node import Node


class Wire:
    """A socket in which everything lies already, and which takes everything."""

    def __init__(self, lies_there: bytes) -> None:
        self._left = memoryview(lies_there)
        self.sent = bytearray()

    def recv_into(self, view: memoryview) -> int:
        count = min(len(view), len(self._left))
        assert count, "it reads into no room, or on though nothing is left"
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def send(self, data: Buffer, _flags: int = 0) -> int:
        self.sent += data
        return len(data)

    @property
    def is_read(self) -> bool:
        return not self._left

    def correlation_ids(self) -> list[int]:
        found, at = [], 0
        while at < len(self.sent):
            size, correlation_id = struct.unpack_from(">ii", self.sent, at)
            found.append(correlation_id)
            at += 4 + size
        return found


def request(correlation_id: int, size_bytes: int) -> bytes:
    """ApiVersions v0 of so many bytes: its client id is as long as it must be."""
    client_id = bytes(size_bytes - 14)
    header = struct.pack(">hhih", 18, 0, correlation_id, len(client_id))
    return struct.pack(">i", len(header) + len(client_id)) + header + client_id


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def connection_over(node: Node, wire: Wire) -> Connection:
    return Connection(
        node.broker,
        wire,  # type: ignore[arg-type]  # a Transport as far as it is used
        Context("PLAINTEXT", "127.0.0.1", "test-1"),
        MemoryPool(-1),
        cast(ReadySockets, None),
    )


@pytest.mark.parametrize("cut", [*range(6), 13, 14, 15, 1999, 2000])
def test_request_cut_anywhere_by_the_buffer_end_is_answered(node: Node, cut: int) -> None:
    """`cut` bytes of the tenth request fit in."""
    sizes = [32_000] * 8 + [BUFFER_SIZE_BYTES - 8 * 32_000 - cut, 2000, 20]
    wire = Wire(b"".join(request(number, size) for number, size in enumerate(sizes)))
    connection = connection_over(node, wire)
    while not wire.is_read:
        assert connection.readable(hold=False)
    assert wire.correlation_ids() == list(range(len(sizes)))


def test_small_requests_that_refill_the_buffer_are_all_answered(node: Node) -> None:
    """Small ones, so many that the buffer is filled over and over; the reaper sees each time."""
    sizes = [14 + (number * 37) % 999 for number in range(2000)]
    wire = Wire(b"".join(request(number, size) for number, size in enumerate(sizes)))
    connection = connection_over(node, wire)
    activity = [connection.activity]
    while not wire.is_read:
        assert connection.readable(hold=False)
        activity.append(connection.activity)
    assert len(set(activity)) == len(activity) > 3
    assert wire.correlation_ids() == list(range(len(sizes)))


def holds(pool: MemoryPool, size_bytes: int) -> bool:
    return pool.used_bytes >= size_bytes


async def test_buffer_of_a_large_request_grows_with_the_received_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is doubled when it is more than half full, whatever the request announces."""
    pools: list[MemoryPool] = []

    def noted(limit_bytes: int) -> MemoryPool:
        pools.append(MemoryPool(limit_bytes))
        return pools[-1]

    monkeypatch.setattr(listener, "MemoryPool", noted)
    async with running_broker(tmp_path, {"queued.max.request.bytes": str(1 << 27)}) as broker:
        [pool] = pools
        client = await RawClient.connect(broker)
        names = [MetadataRequestTopic(name=f"{number:0240d}") for number in range(4000)]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        frame = client.frame(request, 4)
        sent = 0
        for up_to, used in ((0.4, 0), (0.6, 1), (0.9, 1), (1.1, 3), (1.9, 3)):
            upto = int(up_to * BUFFER_SIZE_BYTES)
            await client.stream.send_all(frame[sent:upto])
            sent = upto
            await until(partial(holds, pool, used * BUFFER_SIZE_BYTES))
            assert pool.used_bytes == used * BUFFER_SIZE_BYTES
        await client.stream.send_all(frame[sent:])
        assert len((await client.receive(MetadataResponse, 4))[1].topics) == 4000
        await until(lambda: pool.used_bytes == 0)
        await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)


async def test_request_about_as_long_as_the_buffer_is_answered(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        for size_bytes in range(BUFFER_SIZE_BYTES - 5, BUFFER_SIZE_BYTES + 6):
            names = ["n" * 30_000] * 8 + [""]
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names],
                allow_auto_topic_creation=False,
            )
            missing = size_bytes - len(client.frame(request, 4))
            request.topics[-1].name = "n" * missing  # type: ignore[index]  # they are given
            assert len(client.frame(request, 4)) == size_bytes
            assert len((await client.ask(request, 4, MetadataResponse)).topics) == 2
