"""The limit on the memory of requests that are being received: `queued.max.request.bytes`."""

from __future__ import annotations

from collections import deque

import trio


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
