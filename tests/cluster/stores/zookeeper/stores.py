"""Opens stores in a real or an in-memory ZooKeeper for tests, and waits for their changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.contract import SessionLost, SessionSuspended
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.store import ZooKeeperStore
from tests.cluster.observing import Observing, broker

STATE = PartitionImage(1, 0, 0, (1, 2), (1, 2), controller_epoch=1)
TOPIC = TopicImage("t", b"t" * 16, (STATE, STATE))
SHORT_MS = 4_000
"""A session timeout for tests that wait until it has passed."""


class Observed(ZooKeeperStore, Observing):
    """A ZooKeeperStore that records its events and images."""

    def __init__(self, config: ZooKeeperConfig, broker_id: int = 1) -> None:
        ZooKeeperStore.__init__(self, config, broker_id)
        self.observe(self, lambda: self.image)


@asynccontextmanager
async def opened(
    connect: str,
    broker_id: int = 1,
    *,
    session_timeout_ms: int = 30_000,
    connection_timeout_ms: int = 120_000,
    has_acls: bool = False,
) -> AsyncIterator[Observed]:
    """A store that runs during the block; its session has ended after it."""
    config = ZooKeeperConfig(connect, session_timeout_ms, connection_timeout_ms, has_acls=has_acls)
    async with running(config, broker_id) as store:
        yield store


@asynccontextmanager
async def running(config: ZooKeeperConfig, broker_id: int = 1) -> AsyncIterator[Observed]:
    """Like `opened`, with a complete ZooKeeperConfig."""
    async with trio.open_nursery() as nursery:
        store = Observed(config, broker_id)
        await nursery.start(store.run)
        yield store
        store.close()


class Leading(ZooKeeperStore):
    """A store whose broker becomes the controller at the first call."""

    def __init__(self, config: ZooKeeperConfig, before: Leading | None) -> None:
        super().__init__(config, 1)
        self._before = before
        self.ended = trio.Event()

    async def live(self) -> None:
        if self._before is not None:
            self._before.close()
            await self._before.ended.wait()
        try:
            await self.run()
        finally:
            self.ended.set()

    async def load(self) -> ClusterImage:
        image = await super().load()
        if not self.is_controller and not self.session_is_over:
            assert await self.campaign()
        return self.image if self.is_controller else image

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        await self.load()
        return await super().commit(changes)

    async def register(self, broker: BrokerImage) -> ClusterImage:
        await self.load()
        return await super().register(broker)

    @property
    def session_is_over(self) -> bool:
        return self.ended.is_set() or self.session.state.value == "closed"


def leading_stores(connect: str) -> Callable[[], Leading]:
    """Each call ends the previous store and opens the same one again."""
    stores: list[Leading | None] = [None]

    def open_next() -> Leading:
        store = Leading(ZooKeeperConfig(connect, 30_000, 120_000, has_acls=True), stores[-1])
        stores.append(store)
        trio.lowlevel.spawn_system_task(store.live)
        return store

    return open_next


async def leading(store: Observed, broker_id: int = 1) -> None:
    await store.register(broker(broker_id))
    assert await store.campaign()


MEMORY = "memory:2181"
"""The zookeeper.connect of stores in memory (see the fixture `ensemble`)."""


@asynccontextmanager
async def at_rest(
    broker_id: int = 1, *, has_acls: bool = False, has_tokens: bool = False
) -> AsyncIterator[Observed]:
    """A store on an `Ensemble` that has read everything and waits for changes."""
    config = ZooKeeperConfig(MEMORY, 30_000, 120_000, has_acls=has_acls, has_tokens=has_tokens)
    async with running(config, broker_id) as store:
        await wait_all_tasks_blocked()
        yield store


@asynccontextmanager
async def controlling(*before: Change) -> AsyncIterator[Observed]:
    """Broker 1 as the controller on an `Ensemble`, after `changes` are made."""
    async with opened(MEMORY, has_acls=True) as store:
        await leading(store)
        for change in before:
            await store.commit([change])
        await wait_all_tasks_blocked()
        yield store


def untroubled(store: Observed) -> bool:
    return not any(isinstance(each, SessionSuspended | SessionLost) for each in store.events)


def topics_of(image: ClusterImage) -> dict[str, TopicImage]:
    return dict(image.topics.items())
