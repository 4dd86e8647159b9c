"""Sequential znodes that tell of a change, which stay a while for who was away.

Each is read once; what it says a change was in is read then, for its own words may be old.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.session import OutcomeUnknown, Refused, Session

CHANGES_KEPT_S: Final = 15 * 60
"""How long a notification stays, as in Apache Kafka."""


class Notifications:
    """Those of one folder.  All of it raises StoreError."""

    def __init__(self, session: Session, folder: str) -> None:
        self._session = session
        self.folder = folder
        self._heard: set[str] = set()
        """Of what has been read since."""

    async def pass_over(self) -> None:
        """What they are about will be read in any case; those that come are watched for."""
        self._heard = set(await self._session.children(self.folder, watch=True))

    async def hear(self, read: Callable[[list[tuple[str, bytes]]], Awaitable[None]]) -> None:
        """Have `read` the paths and contents of those not heard yet; remove the oldest."""
        names = await self._session.children(self.folder, watch=True)
        new = [f"{self.folder}/{name}" for name in names if name not in self._heard]
        found = zip(new, await self._session.get_all(new), strict=True)
        await read([(path, each[0]) for path, each in found if each is not None])
        self._heard = set(names)
        if new:
            await _purge(self._session, [f"{self.folder}/{name}" for name in names])


async def _purge(session: Session, paths: Sequence[str]) -> None:
    """Remove the oldest, in the order of their numbers, up to the first that is young."""
    for path in paths:
        stat = await session.exists(path)
        if stat is None:
            continue
        if time.time() - stat.ctime / 1000 <= CHANGES_KEPT_S:
            return
        try:
            await session.multi([session.delete(path)])
        except (Refused, OutcomeUnknown) as problem:
            log.debug("a notification was not removed: %s", problem)
