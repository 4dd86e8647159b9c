"""The holder of a shared metadata store, and its brokers, in the test's process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.image import NO_CONTROLLER, BrokerImage, ClusterImage
from kwire.cluster.metadata.quorum import MetadataQuorum
from kwire.cluster.stores.contract import Watcher
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.server import StoreServer, listen
from kwire.cluster.stores.shared.store import SharedStore
from tests.cluster.observing import Observing, broker


class ObservedShared(SharedStore, Observing):
    """A SharedStore that records its events and images."""

    def __init__(self, stream: trio.SocketStream) -> None:
        SharedStore.__init__(self, stream)
        self.observe(self, lambda: self.image)

    @property
    def image(self) -> ClusterImage:
        return self._image


class Holder:
    """The holder, run in the test's process."""

    def __init__(self, directory: Path, nursery: trio.Nursery) -> None:
        self.path = directory / "s"
        self.file = directory / "metadata.log"
        self.nursery = nursery
        self.scope = trio.CancelScope()

    async def start(self) -> None:
        local = LocalStore(self.file)
        server = StoreServer(local, await local.load())
        self.local = local

        async def serve(task_status: trio.TaskStatus[None]) -> None:
            with self.scope:
                await server.serve(listen(self.path), task_status)

        await self.nursery.start(serve)

    async def connect(self) -> ObservedShared:
        return await ObservedShared.connect(self.path, self.nursery)

    async def broker(self, broker_id: int) -> ObservedShared:
        store = await self.connect()
        await store.register(broker(broker_id))
        return store

    async def end(self) -> None:
        self.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        self.local.close()


@asynccontextmanager
async def holding(directory: Path) -> AsyncIterator[Holder]:
    async with trio.open_nursery() as nursery:
        holder = Holder(directory, nursery)
        await holder.start()
        try:
            yield holder
        finally:
            nursery.cancel_scope.cancel()
            holder.local.close()


class Leading:
    """A shared store whose broker becomes the controller before it changes anything."""

    def __init__(self, directory: Path, before: Leading | None) -> None:
        self._directory, self._before = directory, before
        self._watchers: list[Watcher] = []
        self._opened = trio.Event()
        self._closed = trio.Event()
        self._electing = trio.Lock()
        self.ended = trio.Event()

    async def live(self) -> None:
        """Run with a holder until it is closed."""
        if self._before is not None:
            self._before.close()
            await self._before.ended.wait()
        try:
            async with holding(self._directory) as holder:
                self._store = await holder.connect()
                for watcher in self._watchers:
                    self._store.watch(watcher)
                self._opened.set()
                await self._closed.wait()
            holder.path.unlink()
        finally:
            self.ended.set()

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        if self._opened.is_set():
            self._store.watch(watcher)

    async def load(self) -> ClusterImage:
        await self._opened.wait()
        return await self._store.load()

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        await self.load()
        return await self._store.quorum(asked_ms)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        await self.load()
        async with self._electing:
            if self._store.image.controller_id == NO_CONTROLLER:
                await self.register(broker(1))
        return await self._store.commit(changes)

    async def register(self, broker: BrokerImage) -> ClusterImage:
        await self.load()
        await self._store.register(broker)
        assert await self._store.campaign()
        return self._store.image

    async def allocate_producer_ids(self, count: int) -> range:
        await self.load()
        return await self._store.allocate_producer_ids(count)

    def close(self) -> None:
        self._closed.set()


def shared_stores(directory: Path) -> Callable[[], Leading]:
    """Each call ends the previous store and opens the same one again."""
    stores: list[Leading | None] = [None]

    def open_next() -> Leading:
        store = Leading(directory, stores[-1])
        stores.append(store)
        trio.lowlevel.spawn_system_task(store.live)
        return store

    return open_next
