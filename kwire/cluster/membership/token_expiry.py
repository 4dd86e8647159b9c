"""The controller's regular removal of expired delegation tokens."""

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
    """Remove expired tokens every `delegation.token.expiry.check.interval.ms`, until cancelled."""
    while True:
        await trio.sleep(settings.config.delegation_token_expiry_check_interval_ms / 1000)
        if membership.is_controller:
            await remove_expired(membership, now_ms())


async def remove_expired(membership: ClusterMembership, now_ms: int) -> None:
    """Remove the tokens that have expired by `now_ms`.  An error of the store is only logged."""
    expired = list(token_removals(membership.image, now_ms))
    if not expired:
        return
    try:
        await membership.commit(expired)
    except StoreError as error:
        log.error("Cannot remove %d expired delegation tokens: %s", len(expired), error)
        return
    log.info("Removed %d expired delegation tokens.", len(expired))
