"""The bound on memory that requests on their way in may take: `queued.max.request.bytes`."""

from __future__ import annotations

from collections import deque

import trio


class MemoryPool:
    """Counts what connections hold beyond their small fixed buffer and makes them wait for it.

    `limit_bytes` is `queued.max.request.bytes`; -1 (Kafka's default) counts without limiting.  A
    request larger than the whole pool is let through when it is alone, as otherwise it never
    could be: `socket.request.max.bytes` bounds it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    @property
    def limited(self) -> bool:
        return self.limit_bytes > 0

    def _fits(self, size_bytes: int) -> bool:
        return (
            not self.limited
            or self.used_bytes == 0
            or self.used_bytes + size_bytes <= self.limit_bytes
        )

    async def acquire(self, size_bytes: int) -> None:
        """Take `size_bytes`, after those who asked before."""
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
                self._let_in()  # who asked for less after it may have room
            raise

    def release(self, size_bytes: int) -> None:
        """Give back `size_bytes` and let in those whose turn it is."""
        self.used_bytes -= size_bytes
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            waiting_bytes, event = self._waiting.popleft()
            self.used_bytes += waiting_bytes
            event.set()
