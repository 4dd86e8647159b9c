"""Delegation tokens that have expired are removed, now and then, by the cluster's controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.cluster.store import StoreError
from kwire.controller.token_changes import removals

if TYPE_CHECKING:
    from kwire.metadata.changes import Decision
    from kwire.metadata.image import ClusterImage
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.tokens")


class Remover(Protocol):
    """See kwire.broker.Broker."""

    config: BrokerConfig
    image: ClusterImage

    @property
    def is_controller(self) -> bool:
        """Whether it is the one that removes them."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The wall clock."""

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Raises StoreError."""


async def run(broker: Remover) -> None:
    """Every `delegation.token.expiry.check.interval.ms`, until cancelled."""
    while True:
        await trio.sleep(broker.config.delegation_token_expiry_check_interval_ms / 1000)
        if broker.is_controller:
            await remove_expired(broker)


async def remove_expired(broker: Remover) -> None:
    """Have none of those that have expired by now; where the store refuses, the log says why."""
    expired = list(removals(broker.image, broker.now_ms()))
    if not expired:
        return
    try:
        await broker.commit(expired)
    except StoreError as problem:
        log.error("%d delegation tokens that have expired stay: %s", len(expired), problem)
        return
    log.info("removed %d delegation tokens that had expired", len(expired))
