"""A scripted broker: listens on a port and answers each request by a function of the test."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from kwire.codecs.api_keys import ApiKey, response_header_version
from kwire.codecs.messages.api_versions import ApiVersion, ApiVersionsResponse


@dataclass
class ReceivedRequest:
    """A received request."""

    api_key: int
    version: int
    client_id: str
    body: bytes


Answer = Callable[[ReceivedRequest], Awaitable[bytes | None]]
"""The body of the reply; None closes the connection."""


@dataclass
class Scripted:
    port: int
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0


def versions(*served: tuple[int, int, int]) -> bytes:
    """A reply to ApiVersions, version 0."""
    keys = [ApiVersion(*each) for each in ((int(ApiKey.API_VERSIONS), 0, 0), *served)]
    return ApiVersionsResponse(api_keys=keys).encode(0)


def too_new() -> bytes:
    return ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(int(ApiKey.API_VERSIONS), 0, 0)]
    ).encode(0)


@asynccontextmanager
async def scripted(
    answer: Answer, *, served: tuple[tuple[int, int, int], ...]
) -> AsyncIterator[Scripted]:
    """Serve the APIs `served` (key, lowest, highest version) by `answer`, and ApiVersions too."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = Scripted(listeners[0].socket.getsockname()[1])

    async def serve(stream: trio.SocketStream) -> None:
        server.connections += 1
        data = bytearray()
        async with stream:
            async for piece in stream:
                data += piece
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                    size = int.from_bytes(data[:4])
                    frame, data = bytes(data[4 : 4 + size]), data[4 + size :]
                    reply = await _reply(server, answer, served, frame)
                    if reply is None:
                        return
                    await stream.send_all(struct.pack(">i", len(reply)) + reply)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield server
        nursery.cancel_scope.cancel()


async def _reply(
    server: Scripted, answer: Answer, served: tuple[tuple[int, int, int], ...], frame: bytes
) -> bytes | None:
    api_key, version, correlation_id, length = struct.unpack_from(">hhih", frame)
    if api_key == ApiKey.API_VERSIONS:
        body: bytes | None = versions(*served) if version == 0 else too_new()
    else:
        request = ReceivedRequest(
            api_key, version, frame[10 : 10 + length].decode(), frame[10 + length :]
        )
        server.requests.append(request)
        body = await answer(request)
    if body is None:
        return None
    tagged = b"\0" * response_header_version(api_key, version)
    return struct.pack(">i", correlation_id) + tagged + body
