"""Recorder: a proxy in front of a broker that forwards bytes and records requests."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import trio

from kwire.codecs.api_keys import request_header_version
from kwire.codecs.messages import request_class
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import Message


@dataclass
class RecordedRequest:
    """A recorded request."""

    version: int
    client_id: str | None
    body: Message


@dataclass
class Recorder:
    """Listens on `port` for the broker at `target`."""

    target: int
    port: int = 0
    requests: list[RecordedRequest] = field(default_factory=list)

    async def run(
        self,
        task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Forward connections until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._pass_on, listeners, task_status=task_status)

    async def _pass_on(self, stream: trio.SocketStream) -> None:
        try:
            there = await trio.open_tcp_stream("127.0.0.1", self.target)
        except OSError:
            return
        async with there, trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, there, stream, None, nursery.cancel_scope)
            await self._copy(stream, there, bytearray(), nursery.cancel_scope)

    async def _copy(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        unread: bytearray | None,
        scope: trio.CancelScope,
    ) -> None:
        """Forward bytes; if `unread` is given, record the requests in them."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # either may hang up
            async for data in source:
                if unread is not None:
                    unread += data
                    self._note(unread)
                await target.send_all(data)
        scope.cancel()

    def _note(self, unread: bytearray) -> None:
        """Record the complete requests at the start of `unread`, and remove them."""
        while len(unread) >= 4 and len(unread) >= (size := 4 + int.from_bytes(unread[:4])):
            frame = bytes(unread[4:size])
            del unread[:size]
            key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
            header, at = RequestHeader.read(frame, request_header_version(key, version), 0)
            body = request_class(key).decode(frame, version, at)
            self.requests.append(RecordedRequest(version, header.client_id, body))
