"""Whether a request that puts off a timer waits to be read, behind whatever else lies there."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.requests.context import Context
from kwire.server.network.connection import Connection
from kwire.server.network.memory import MemoryPool
from kwire.server.network.readiness import ReadySockets
from kwire.server.network.transport import PlainTransport


def frame(key: ApiKey, size_bytes: int = 20) -> bytes:
    return struct.pack(">ih", size_bytes, key) + bytes(size_bytes - 2)


HEARTBEAT, METADATA = frame(ApiKey.HEARTBEAT), frame(ApiKey.METADATA)


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    broker = SimpleNamespace(
        config=SimpleNamespace(socket_request_max_bytes=1 << 20), gate=None, timers=None
    )
    connection = Connection(
        cast(Broker, broker),
        PlainTransport(near),
        cast(Context, None),
        MemoryPool(-1),
        cast(ReadySockets, None),
    )
    yield connection, far
    near.close()
    far.close()


@pytest.mark.parametrize(
    ("lies_there", "timely"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(HEARTBEAT, True, id="it alone"),
        pytest.param(HEARTBEAT[:6], True, id="no more of it than what it is"),
        pytest.param(HEARTBEAT[:5], False, id="less than that"),
        pytest.param(METADATA, False, id="another"),
        pytest.param(METADATA + HEARTBEAT, True, id="the second"),
        pytest.param(METADATA + frame(ApiKey.METADATA, 33) + HEARTBEAT, True, id="the third"),
        pytest.param(METADATA * 3 + HEARTBEAT[:6], True, id="the beginning of the fourth"),
        pytest.param(METADATA + frame(ApiKey.FETCH, 99), False, id="two others"),
        pytest.param(frame(ApiKey.FETCH, 9000) + HEARTBEAT, False, id="behind a large one"),
        pytest.param(struct.pack(">ih", 0, 3) + HEARTBEAT, False, id="behind a bad frame"),
        pytest.param(struct.pack(">i", 0) + HEARTBEAT, False, id="behind an empty frame"),
    ],
)
@pytest.mark.parametrize("read_bytes", [0, 3])
def test_timely_request_is_found_in_buffer_and_socket(
    ends: tuple[Connection, socket.socket], lies_there: bytes, timely: bool, read_bytes: int
) -> None:
    """`read_bytes` of it are in the connection's buffer already, as of a request that came late."""
    connection, far = ends
    far.sendall(lies_there[:read_bytes])
    if lies_there[:read_bytes]:
        assert connection.readable(hold=False)
    far.sendall(lies_there[read_bytes:])
    assert connection.is_timely() is timely
    assert connection.is_timely() is timely, "looking takes nothing away"


def test_closed_client_has_no_timely_request(ends: tuple[Connection, socket.socket]) -> None:
    connection, far = ends
    far.close()
    assert not connection.is_timely()
