"""ImageWaiters: tasks of a member that wait until its image shows something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.metadata.image import ClusterImage

Seen = Callable[["ClusterImage"], bool]


class ImageWaiters:
    """See the module.  The member calls `wake` after each change of the image."""

    def __init__(self, node: Node, nursery: trio.Nursery) -> None:
        """`nursery` runs the tasks of `call_when`."""
        self._node = node
        self._nursery = nursery
        self._changed = trio.Event()

    async def wait_until(self, seen: Seen, timeout_ms: int) -> bool:
        """Wait until the image satisfies `seen`; False after `timeout_ms`."""
        with trio.move_on_after(timeout_ms / 1000):
            await self._wait(seen)
            return True
        return False

    def call_when(self, seen: Seen, then: Callable[[], None]) -> None:
        """Call `then` once the image satisfies `seen`."""

        async def wait() -> None:
            await self._wait(seen)
            then()

        self._nursery.start_soon(wait)

    async def _wait(self, seen: Seen) -> None:
        while not seen(self._node.image):
            await self._changed.wait()

    def wake(self) -> None:
        """Let all who wait look at the image again."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()
