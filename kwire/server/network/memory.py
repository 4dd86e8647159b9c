"""The memory of requests that are being received: each connection's buffer, and their common limit.

A buffer grows with the bytes that arrive; an idle connection has none.
"""

from __future__ import annotations

import struct
from collections import deque
from mmap import mmap

import trio

from kwire.requests.context import InvalidSize

FRAME_SIZE = struct.Struct(">i")
"""The size in front of a frame, which does not count itself."""

BUFFER_SIZE_BYTES = 256 * 1024
"""The read buffer of a connection without a larger request.  The five batches of 16 kB that a
producer has in flight arrive in one read.  The buffer is a memory mapping, not a bytearray: Python
fills a bytearray with zeros, while pages of a mapping take memory only once something is read into
them."""

NO_BUFFER = memoryview(bytearray())
"""The buffer of idle connections.  A read into it gives 0 bytes, without a system call."""


class MemoryPool:
    """Counts the memory of connections beyond their fixed buffer, and lets them wait for it.

    `limit_bytes` is `queued.max.request.bytes`; -1 (Kafka's default) counts without a limit.  A
    request that is larger than the whole pool gets its memory when the pool is empty, as it would
    wait forever otherwise; `socket.request.max.bytes` limits it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    @property
    def limited(self) -> bool:
        return self.limit_bytes > 0

    def _fits(self, size_bytes: int) -> bool:
        """Return whether the request may be received now.

        One request is always received, even if it is above the limit, or it would wait for ever.
        """
        return (
            not self.limited
            or self.used_bytes == 0
            or self.used_bytes + size_bytes <= self.limit_bytes
        )

    async def acquire(self, size_bytes: int) -> None:
        """Wait for `size_bytes` of memory, in the order of the calls."""
        if not self._waiting and self._fits(size_bytes):
            self.used_bytes += size_bytes
            return
        event = trio.Event()
        entry = (size_bytes, event)
        self._waiting.append(entry)
        try:
            await event.wait()
        except trio.Cancelled:
            if event.is_set():
                self.release(size_bytes)
            else:
                self._waiting.remove(entry)
                self._grant()  # a smaller request behind it may fit now
            raise

    def release(self, size_bytes: int) -> None:
        """Return `size_bytes` to the pool, and grant memory to the waiting connections that fit."""
        self.used_bytes -= size_bytes
        self._grant()

    def _grant(self) -> None:
        """Wake the requests that fit now, in the order of their arrival."""
        while self._waiting and self._fits(self._waiting[0][0]):
            waiting_bytes, event = self._waiting.popleft()
            self.used_bytes += waiting_bytes
            event.set()


class ReceivedBytes:
    """The base of a connection: its buffer, from which it cuts the frames.

    frame_size_bytes_max   the largest request
    """

    __slots__ = ("_buffer", "_end", "_memory", "_start", "_view", "frame_size_bytes_max")

    _buffer: mmap | memoryview
    _view: memoryview

    def __init__(self, memory: MemoryPool, frame_size_bytes_max: int) -> None:
        self._memory = memory
        self.frame_size_bytes_max = frame_size_bytes_max
        self._take_buffer()
        self._start = 0  # first byte not yet handled
        self._end = 0  # first byte not yet filled

    def _next_frame(self) -> memoryview | None:
        """Return the next complete request, without its size; None when more bytes are needed.

        Raises InvalidSize as soon as the size is known, before any memory is taken for the request.
        """
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        size: int = FRAME_SIZE.unpack_from(self._buffer, start)[0]
        if not 0 <= size <= self.frame_size_bytes_max:
            raise InvalidSize(
                f"request of {size} bytes; at most {self.frame_size_bytes_max} are allowed"
            )
        if available < size + 4:
            return None
        start += 4
        self._start = end = start + size
        return self._view[start:end]

    def _make_room(self) -> bool:
        """Keep the incomplete frame, with room behind it for its missing bytes.

        Returns False when that takes a larger buffer: `_grow` waits for the memory.
        """
        start, have = self._start, self._end - self._start
        if not have:
            self._start = self._end = 0
            if len(self._buffer) > BUFFER_SIZE_BYTES and self._memory.limited:
                self._shrink()  # other connections may wait for this memory
            return True
        size_bytes = self._frame_size_bytes()
        capacity = len(self._buffer)
        if start + size_bytes <= capacity and self._end < capacity:
            return True  # the whole frame fits where it is: nothing is copied
        if size_bytes > capacity and have * 2 > capacity:
            return False
        if start:
            self._view[:have] = self._view[start : self._end]
            self._start, self._end = 0, have
        return True

    def _frame_size_bytes(self) -> int:
        """Bytes of the incomplete frame with its size field; 4 while the size is incomplete."""
        if self._end - self._start < 4:
            return 4
        size: int = FRAME_SIZE.unpack_from(self._buffer, self._start)[0]
        return size + 4

    async def _grow(self) -> None:
        """Double the buffer, once the memory pool has room.

        The buffer grows with the bytes that arrived and not with the announced size: a client that
        announces 100 MB and sends ten bytes takes no memory.
        """
        have, capacity = self._end - self._start, len(self._buffer)
        grown = min(capacity * 2, self.frame_size_bytes_max + 4)
        await self._memory.acquire(grown - capacity)
        buffer = mmap(-1, grown)
        view = memoryview(buffer)
        view[:have] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, view
        self._start, self._end = 0, have

    def _take_buffer(self) -> None:
        self._buffer = mmap(-1, BUFFER_SIZE_BYTES)
        self._view = memoryview(self._buffer)

    def _shrink(self) -> None:
        """Return the buffer, and to the pool what it has above the usual size."""
        self._memory.release(max(0, len(self._buffer) - BUFFER_SIZE_BYTES))
        self._buffer = self._view = NO_BUFFER
