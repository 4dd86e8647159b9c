"""Sequential znodes that tell of a change, which stay a while for who was away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from kwire.cluster.zookeeper.link import log
from kwire.cluster.zookeeper.session import OutcomeUnknown, Refused, Session

CHANGES_KEPT_S: Final = 15 * 60
"""How long a notification stays, as in Apache Kafka."""


async def purge(session: Session, paths: Sequence[str]) -> None:
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
