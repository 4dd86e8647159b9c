"""RequestBatcher: collects items for a broker while its previous request is in flight.

Each broker gets one request at a time, which has all items added since the previous one was sent.
So a single item is sent at once, and many items share a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import trio

ItemT = TypeVar("ItemT")


class RequestBatcher(Generic[ItemT]):
    """See the module.  `send(broker_id, items)` sends a request and gives each item its answer."""

    def __init__(
        self,
        nursery: trio.Nursery,
        identify: Callable[[ItemT], tuple[Hashable, object]],
        send: Callable[[int, list[ItemT]], Awaitable[None]],
        *,
        items_max: int,
    ) -> None:
        """`identify` returns the subject of an item and its content; `items_max` is per request.

        A response names only subjects.  So a request never has two items of the same subject with
        different contents: the second one waits for the next request.
        """
        self._nursery = nursery
        self._identify = identify
        self._send = send
        self._items_max = items_max
        self._queues: dict[int, deque[ItemT]] = {}
        """Items not sent yet, of each broker that has a sending task."""

    def add(self, broker_id: int, item: ItemT) -> None:
        """Send `item` to that broker with its next request."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = deque()
            self._nursery.start_soon(self._send_all, broker_id, queue)
        queue.append(item)

    async def _send_all(self, broker_id: int, queue: deque[ItemT]) -> None:
        while queue:
            await self._send(broker_id, self._take(queue))
        del self._queues[broker_id]

    def _take(self, queue: deque[ItemT]) -> list[ItemT]:
        """Remove the items of the next request from `queue`."""
        contents: dict[Hashable, object] = {}
        taken: list[ItemT] = []
        for _ in range(len(queue)):
            item = queue.popleft()
            subject, content = self._identify(item)
            if len(taken) < self._items_max and contents.setdefault(subject, content) == content:
                taken.append(item)
            else:
                queue.append(item)
        return taken
