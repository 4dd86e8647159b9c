"""A proxy between a broker and ZooKeeper that delays, holds back or loses frames."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

MULTI = 14
"""Operation code of a multi in ZooKeeper's protocol; each write of kwire is one."""


class Proxy:
    """Forwards frames in both directions; opens a connection to ZooKeeper for each accepted one."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listeners: list[trio.SocketListener] = []
        self._cuts: set[trio.CancelScope] = set()
        self._passing = trio.Event()
        self._passing.set()
        self.refuses = False
        self._to_ignore = 0
        self.delay_s = 0.0
        self._to_lose: tuple[bytes, bool] | None = None
        self.lost = trio.Event()
        """Set once the frame that `lose` names has been lost."""
        self.waiting = trio.Event()
        """Set while frames are held and one of them waits."""

    @property
    def port(self) -> int:
        port: int = self._listeners[0].socket.getsockname()[1]
        return port

    def connect(self, chroot: str) -> str:
        return f"127.0.0.1:{self.port}/{chroot}"

    @property
    def carries(self) -> bool:
        """Whether a connection is open."""
        return bool(self._cuts)

    # -- faults

    def cut(self) -> None:
        """Close open connections; accept new ones."""
        for each in self._cuts:
            each.cancel()

    def refuse(self) -> None:
        """Close open connections and all later ones."""
        self.refuses = True
        self.cut()

    def accept(self) -> None:
        self.refuses = False

    def ignore(self, connections: int) -> None:
        """Close open connections; accept the next `count` without ever answering them."""
        self._to_ignore = connections
        self.cut()

    def hold(self) -> None:
        """Hold all frames, with connections open, until `release`."""
        self._passing, self.waiting = trio.Event(), trio.Event()

    def release(self) -> None:
        self._passing.set()

    def lose(self, part: bytes, *, reply: bool) -> None:
        """Lose the next write with `part` in it, or its reply; then close the connection."""
        self._to_lose, self.lost = (part, reply), trio.Event()

    # -- passing on

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        self._listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        task_status.started()
        await trio.serve_listeners(self._serve, self._listeners)

    async def _serve(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._cuts.add(scope)
            if self._to_ignore > 0:
                self._to_ignore -= 1
                await _read_to_the_end(client)
            elif not self.refuses:
                await self._connect(client, scope)
        self._cuts.discard(scope)

    async def _connect(self, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self._target_port)
        except OSError:
            return
        line = _Line(self, scope)
        async with server, trio.open_nursery() as nursery:
            nursery.start_soon(line.pass_on, client, server, line.request)
            nursery.start_soon(line.pass_on, server, client, line.reply)

    async def pause(self) -> None:
        """Wait while frames are held."""
        await trio.sleep(self.delay_s)
        self.waiting.set()
        await self._passing.wait()

    def is_to_be_lost(self, request: bytes) -> bool | None:
        """None if the frame is not to be lost; else whether its reply is to be lost."""
        if self._to_lose is None or self._to_lose[0] not in request:
            return None
        reply, self._to_lose = self._to_lose[1], None
        return reply


async def _read_to_the_end(client: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        async for _ in client:
            pass


class _Line:
    """One connection, with the requests whose replies are to be lost."""

    def __init__(self, proxy: Proxy, scope: trio.CancelScope) -> None:
        self._proxy, self._scope = proxy, scope
        self._doomed: set[bytes] = set()

    async def pass_on(
        self, source: trio.SocketStream, sink: trio.SocketStream, seen: object
    ) -> None:
        assert callable(seen)
        waiting = bytearray()
        try:
            async for data in source:
                waiting += data
                while len(waiting) >= 4:
                    end = 4 + struct.unpack_from(">i", waiting)[0]
                    if len(waiting) < end:
                        break
                    frame, waiting = bytes(waiting[:end]), waiting[end:]
                    await self._proxy.pause()
                    seen(frame)
                    await sink.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # one side is gone: so is the other
        self._scope.cancel()

    def request(self, frame: bytes) -> None:
        if len(frame) < 12 or struct.unpack_from(">i", frame, 8)[0] != MULTI:
            return
        reply = self._proxy.is_to_be_lost(frame)
        if reply is True:
            self._doomed.add(frame[4:8])
        elif reply is False:
            self._end()

    def reply(self, frame: bytes) -> None:
        if frame[4:8] in self._doomed:
            self._end()

    def _end(self) -> None:
        """Cancel the scope, so that this frame is not sent."""
        self._proxy.lost.set()
        self._scope.cancel()


@asynccontextmanager
async def proxied(target_port: int) -> AsyncIterator[Proxy]:
    async with trio.open_nursery() as nursery:
        proxy = Proxy(target_port)
        await nursery.start(proxy.run)
        yield proxy
        nursery.cancel_scope.cancel()
