"""Connections in memory between the holder and its brokers: what is sent arrives when told to.

Each direction is a `Pipe`.  Bytes arrive in their order and in pieces of any size; behind the last
ones arrives the end, once the sender has closed.  A full pipe has its sender wait, as a socket's
buffer does.
"""

from __future__ import annotations

import random

import trio

BUFFER_BYTES = 1500
"""Of a pipe: less than many lines have, so that a line is often sent in parts."""


class Pipe:
    """One direction."""

    def __init__(self) -> None:
        self.sent = bytearray()
        """On its way."""
        self.arrived = bytearray()
        self.has_ended = False
        """The sender has closed."""
        self.end_arrived = False
        self.is_broken = False
        """The receiver has closed: nothing that is sent from now on arrives."""
        self._changed = trio.Event()

    @property
    def is_moving(self) -> bool:
        """Whether something of it can arrive."""
        return bool(self.sent) or (self.has_ended and not self.end_arrived)

    def arrive(self, size_bytes: int) -> None:
        """So many bytes at the most, or the end where none is left."""
        if self.sent:
            self.arrived += self.sent[:size_bytes]
            del self.sent[:size_bytes]
        elif self.has_ended:
            self.end_arrived = True
        self.wake()

    def end(self, lost_bytes: int = 0) -> None:
        """The sender is gone; of what it sent last the end may be missing."""
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
        """Has the `close` that trio's sockets have."""
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
        """From the broker."""
        self.down = down
        self.broker = End(down, up)
        self.holder = End(up, down)
        self.is_held = False
        """The broker is paused: nothing of what it is told arrives."""

    @property
    def is_over(self) -> bool:
        """Whether both sides have closed it, and know that of each other."""
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
        """The holder listens from now on."""
        self._accepting, accepted = trio.open_memory_channel[End](1000)
        return Listener(accepted)

    def close(self) -> None:
        """The holder is gone; what it sent may still arrive."""
        self._accepting = None
        for each in self.connections:
            each.holder.close()

    async def connect(self, path: str) -> End:
        """In the place of trio.open_unix_socket."""
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
        """A piece of something."""
        self.connections = [each for each in self.connections if not each.is_over]
        pipes = [pipe for each in self.connections for pipe in each.moving()]
        if pipes:
            most_bytes = self._chance.choice([1, 40, 300, BUFFER_BYTES])
            pipes[number % len(pipes)].arrive(self._chance.randint(1, most_bytes))

    def arrive_all(self) -> bool:
        """What is on its way; whether there was anything."""
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
