"""Notifications: sequential znodes in one folder, each of which names a changed resource.

A broker reads each notification once, then reads the resource itself, which may have changed again.
Notifications stay for a while, for brokers that are disconnected.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.session import (
    OutcomeUnknown,
    TransactionRefused,
    ZooKeeperSession,
)

CHANGES_KEPT_S: Final = 15 * 60
"""Age in seconds at which a notification is deleted, as in Apache Kafka."""


class Notifications:
    """The notifications in `folder`.  All methods raise StoreError."""

    def __init__(self, session: ZooKeeperSession, folder: str) -> None:
        self._session = session
        self.folder = folder
        self._processed: set[str] = set()
        """Names of the notifications that were processed or skipped."""

    async def skip(self) -> None:
        """Count the present notifications as processed, and watch for new ones.

        For a caller that reads all resources anyway.
        """
        self._processed = set(await self._session.children(self.folder, watch=True))

    async def process(self, read: Callable[[list[tuple[str, bytes]]], Awaitable[None]]) -> None:
        """Calls `read` with path and content of each new notification; then deletes old ones."""
        names = await self._session.children(self.folder, watch=True)
        new = [f"{self.folder}/{name}" for name in names if name not in self._processed]
        znodes = zip(new, await self._session.get_all(new), strict=True)
        await read([(path, znode[0]) for path, znode in znodes if znode is not None])
        self._processed = set(names)
        if new:
            await _purge(self._session, [f"{self.folder}/{name}" for name in names])


async def _purge(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    """Deletes notifications from the oldest on, up to the first that is not old enough."""
    for path in paths:
        stat = await session.exists(path)
        if stat is None:
            continue
        if time.time() - stat.ctime / 1000 <= CHANGES_KEPT_S:
            return
        try:
            await session.multi([session.delete(path)])
        except (TransactionRefused, OutcomeUnknown) as problem:
            log.debug("Cannot remove a notification from ZooKeeper: %s", problem)
