"""Observing: records the events and images of a store, and lets a test wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.stores.contract import ClusterStore, StoreEvent

PATIENCE_S = 120.0
"""Timeout of waits for what must come; long, because the machine may be busy."""

Event = TypeVar("Event")


def broker(broker_id: int) -> BrokerImage:
    return BrokerImage(broker_id, (Endpoint("PLAINTEXT", "localhost", 9000 + broker_id),), "rack")


class Observing:
    """A mixin of store classes that records events, images and deltas."""

    def observe(self, store: ClusterStore, image: Callable[[], ClusterImage]) -> None:
        """Observe `store`, which is this object; `image` returns its present image."""
        self._image_now = image
        self.events: list[StoreEvent] = []
        self.seen: list[tuple[ClusterImage, ClusterDelta]] = []
        self._heard = trio.Event()
        store.on_event = self._note
        store.watch(self._see)

    def _note(self, event: StoreEvent) -> None:
        self.events.append(event)
        self._heard.set()

    def _see(self, image: ClusterImage, delta: ClusterDelta) -> None:
        if self.seen:
            assert delta.applied_to(self.seen[-1][0]) == image, "a delta leads to its image"
        self.seen.append((image, delta))
        self._heard.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; checks it after each image and each event."""
        with trio.fail_after(PATIENCE_S):
            while not condition():
                self._heard = trio.Event()
                await self._heard.wait()

    async def shows(self, condition: Callable[[ClusterImage], bool]) -> ClusterImage:
        """Wait for an image, the present one or a later one, for which `condition` holds."""
        await self.until(lambda: condition(self._image_now()))
        return self._image_now()

    async def next_event(self, kind: type[Event]) -> Event:
        """Wait for the next event of `kind` that no earlier call returned."""
        await self.until(lambda: any(isinstance(event, kind) for event in self.events))
        found = next(event for event in self.events if isinstance(event, kind))
        self.events = self.events[self.events.index(found) + 1 :]
        return found
