"""Opens and closes the metadata store that a member shares with the other brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kwire.cluster.stores.contract import ClusterStore
    from kwire.settings import BrokerConfig


@asynccontextmanager
async def open_store(config: BrokerConfig, metadata: Path | None) -> AsyncIterator[ClusterStore]:
    """The store behind the Unix socket `metadata`, or else that of `zookeeper.connect`, loaded.

    Raises StoreError, ConfigError.
    """
    async with trio.open_nursery() as nursery:
        store = await _opened(config, metadata, nursery)
        try:
            yield store
        finally:
            store.close()
            nursery.cancel_scope.cancel()


async def _opened(
    config: BrokerConfig, metadata: Path | None, nursery: trio.Nursery
) -> ClusterStore:
    """Return the connected store: behind the Unix socket `metadata`, or else in ZooKeeper."""
    if metadata is not None:
        from kwire.cluster.stores.shared.store import SharedStore

        return await SharedStore.connect(metadata, nursery)
    from kwire.cluster.stores.zookeeper.config import zookeeper_config
    from kwire.cluster.stores.zookeeper.store import ZooKeeperStore

    store = ZooKeeperStore(zookeeper_config(config), config.node_id)
    await nursery.start(store.run)
    return store
