"""What is to be said to other brokers, gathered while they are being spoken to.

A broker is sent one request at a time, with all that came up since the last one went out: a lone
question goes at once, many share a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import trio

ItemT = TypeVar("ItemT")


class Gathering(Generic[ItemT]):
    """See the module.  `send(broker_id, items)` asks, and hands each item its answer."""

    def __init__(
        self,
        nursery: trio.Nursery,
        identify: Callable[[ItemT], tuple[Hashable, object]],
        send: Callable[[int, list[ItemT]], Awaitable[None]],
        *,
        items_max: int,
    ) -> None:
        """`identify` gives whom an item is about, and what is said of it.

        A request says one thing about each, for its answer names whom and not what; the others wait
        for the next request.
        """
        self._nursery = nursery
        self._identify = identify
        self._send = send
        self._items_max = items_max
        self._queues: dict[int, deque[ItemT]] = {}
        """What has not gone out, of each broker that is being spoken to."""

    def add(self, broker_id: int, item: ItemT) -> None:
        """Have it said to that broker, soon."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = deque()
            self._nursery.start_soon(self._speak, broker_id, queue)
        queue.append(item)

    async def _speak(self, broker_id: int, queue: deque[ItemT]) -> None:
        while queue:
            await self._send(broker_id, self._take(queue))
        del self._queues[broker_id]

    def _take(self, queue: deque[ItemT]) -> list[ItemT]:
        """What goes into the next request."""
        said: dict[Hashable, object] = {}
        taken: list[ItemT] = []
        for _ in range(len(queue)):
            item = queue.popleft()
            whom, what = self._identify(item)
            if len(taken) < self._items_max and said.setdefault(whom, what) == what:
                taken.append(item)
            else:
                queue.append(item)
        return taken
