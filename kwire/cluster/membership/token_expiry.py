"""Delegation tokens that have expired are removed, now and then, by the cluster's controller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from kwire.cluster.decisions.token_changes import token_removals
from kwire.cluster.stores.contract import StoreError

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.settings.live import LiveSettings

log = logging.getLogger("kwire.tokens")


async def run(
    settings: LiveSettings, membership: ClusterMembership, now_ms: Callable[[], int]
) -> None:
    """Every `delegation.token.expiry.check.interval.ms`, until cancelled."""
    while True:
        await trio.sleep(settings.config.delegation_token_expiry_check_interval_ms / 1000)
        if membership.is_controller:
            await remove_expired(membership, now_ms())


async def remove_expired(membership: ClusterMembership, now_ms: int) -> None:
    """Have none of those that have expired by now; where the store refuses, the log says why."""
    expired = list(token_removals(membership.image, now_ms))
    if not expired:
        return
    try:
        await membership.commit(expired)
    except StoreError as problem:
        log.error("%d delegation tokens that have expired stay: %s", len(expired), problem)
        return
    log.info("removed %d delegation tokens that had expired", len(expired))
