"""Connections in memory between the holder and its brokers: what is sent arrives when told to.

Each direction is a `Pipe`.  Bytes arrive in their order and in pieces of any size; behind the last
ones arrives the end, once the sender has closed.  A full pipe has its sender wait, as a socket's
buffer does.
"""

from __future__ import annotations

import random

import trio

BUFFER_BYTES = 1500
"""Capacity of a pipe, less than that of many lines, so that lines are often sent in parts."""


class Pipe:
    """One direction of a connection."""

    def __init__(self) -> None:
        self.sent = bytearray()
        """Bytes in flight."""
        self.arrived = bytearray()
        self.has_ended = False
        """Whether the sender has closed it."""
        self.end_arrived = False
        self.is_broken = False
        """Whether the receiver has closed it: bytes sent from now on are lost."""
        self._changed = trio.Event()

    @property
    def is_moving(self) -> bool:
        """Whether bytes, or the end, can arrive."""
        return bool(self.sent) or (self.has_ended and not self.end_arrived)

    def arrive(self, size_bytes: int) -> None:
        """Deliver at most `size_bytes`, or the end if no bytes are left."""
        if self.sent:
            self.arrived += self.sent[:size_bytes]
            del self.sent[:size_bytes]
        elif self.has_ended:
            self.end_arrived = True
        self.wake()

    def end(self, lost_bytes: int = 0) -> None:
        """End the sender's side; the last `lost_bytes` are lost."""
        if lost_bytes and not self.has_ended:
            del self.sent[max(0, len(self.sent) - lost_bytes) :]
        self.has_ended = True
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def change(self) -> None:
        await self._changed.wait()


class End(trio.abc.Stream):
    """One end of a connection, a trio.SocketStream as far as kwire uses one."""

    def __init__(self, coming: Pipe, going: Pipe) -> None:
        self.coming = coming
        self.going = going
        self.is_closed = False

    @property
    def socket(self) -> End:
        """This object, which has the `close` of trio's sockets."""
        return self

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("kwire does not ask")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            if self.is_closed:
                raise trio.ClosedResourceError
            if self.going.is_broken:
                raise trio.BrokenResourceError
            room = BUFFER_BYTES - len(self.going.sent) - len(self.going.arrived)
            if room <= 0:
                await self.going.change()
                continue
            self.going.sent += left[:room]
            left = left[room:]

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            if self.is_closed:
                raise trio.ClosedResourceError
            if self.coming.arrived:
                received = bytes(self.coming.arrived[:max_bytes])
                del self.coming.arrived[:max_bytes]
                self.coming.wake()
                return received
            if self.coming.end_arrived:
                return b""
            await self.coming.change()

    def close(self, lost_bytes: int = 0) -> None:
        self.is_closed = True
        self.going.end(lost_bytes)
        self.coming.is_broken = True
        self.coming.wake()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


class Connection:
    """A broker's connection to the holder."""

    def __init__(self) -> None:
        up, down = Pipe(), Pipe()
        self.up = up
        """The direction from the broker to the holder."""
        self.down = down
        self.broker = End(down, up)
        self.holder = End(up, down)
        self.is_held = False
        """Whether the broker is paused: nothing arrives at it."""

    @property
    def is_over(self) -> bool:
        """Whether both sides have closed it, and both ends have arrived."""
        return self.broker.is_closed and self.holder.is_closed and not self.up.is_moving

    def moving(self) -> list[Pipe]:
        pipes = [self.up] if self.is_held else [self.up, self.down]
        return [pipe for pipe in pipes if pipe.is_moving]


class Network:
    """All connections, and the holder's socket if it listens."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.connections: list[Connection] = []
        self._accepting: trio.MemorySendChannel[End] | None = None

    def listener(self) -> Listener:
        """Start listening for the holder."""
        self._accepting, accepted = trio.open_memory_channel[End](1000)
        return Listener(accepted)

    def close(self) -> None:
        """End the holder's side; bytes in flight may still arrive."""
        self._accepting = None
        for each in self.connections:
            each.holder.close()

    async def connect(self, path: str) -> End:
        """Replaces trio.open_unix_socket."""
        await trio.lowlevel.checkpoint()
        if self._accepting is None:
            raise ConnectionRefusedError(path)
        connection = Connection()
        self.connections.append(connection)
        self._accepting.send_nowait(connection.holder)
        return connection.broker

    def of(self, end: object) -> Connection:
        return next(each for each in self.connections if end in (each.broker, each.holder))

    def arrive(self, number: int) -> None:
        """Deliver a piece of one pipe."""
        self.connections = [each for each in self.connections if not each.is_over]
        pipes = [pipe for each in self.connections for pipe in each.moving()]
        if pipes:
            most_bytes = self._chance.choice([1, 40, 300, BUFFER_BYTES])
            pipes[number % len(pipes)].arrive(self._chance.randint(1, most_bytes))

    def arrive_all(self) -> bool:
        """Deliver everything in flight; returns whether there was anything."""
        pipes = [pipe for each in self.connections for pipe in each.moving()]
        for pipe in pipes:
            pipe.arrive(BUFFER_BYTES)
        return bool(pipes)


class Listener(trio.abc.Listener[End]):
    """The holder's socket."""

    def __init__(self, accepted: trio.MemoryReceiveChannel[End]) -> None:
        self._accepted = accepted

    async def accept(self) -> End:
        return await self._accepted.receive()

    async def aclose(self) -> None:
        self._accepted.close()
        await trio.lowlevel.checkpoint()
