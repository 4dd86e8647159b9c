"""Applies configs that change at run time: those of topics, quotas, and this broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.settings import CLUSTER_DEFAULT, ConfigError, ConfigResourceType

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import ResourceKey
    from kwire.security.quotas.enforced import ClientQuotas

log = logging.getLogger("kwire.broker")


class ConfigFollower:
    """Applies changed configs on one broker.

    quotas              the client quotas; None until the first one is set
    on_quotas           called once, when the first quota is set
    asks_for_metrics    whether there is a client metrics subscription
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.quotas: ClientQuotas | None = None
        self.on_quotas: Callable[[ClientQuotas], None] | None = None
        self.asks_for_metrics = False
        self._cordon()

    def apply(self, changed: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """Apply changes; `changed` has all configs of each resource whose configs changed."""
        broker = self._broker
        if any(kind == ENTITY_RESOURCE for kind, _ in changed):
            self._apply_quotas(changed)
        own = (ConfigResourceType.BROKER, str(broker.node_id))
        everyone = (ConfigResourceType.BROKER, CLUSTER_DEFAULT)
        if own in changed or everyone in changed:
            self._apply_own(everyone, own)
            topics = set(broker.hosted.by_topic)
        else:
            topics = {name for kind, name in changed if kind == ConfigResourceType.TOPIC}
        broker.hosted.configure(topics)
        if any(kind == ConfigResourceType.CLIENT_METRICS for kind, _ in changed):
            self._apply_subscriptions(changed)
        broker.membership.configs_changed(changed)

    def _apply_own(self, everyone: ResourceKey, own: ResourceKey) -> None:
        """Apply the dynamic configs of this broker: the cluster's defaults, then its own.

        Invalid ones are logged, and the old ones stay.
        """
        settings, image = self._broker.settings, self._broker.image
        try:
            settings.config = settings.static_config.with_dynamic(
                image.configs_of(*everyone), image.configs_of(*own)
            )
        except ConfigError as error:
            log.error("Cannot apply the broker's dynamic configs: %s. The old ones stay.", error)
        self._cordon()
        self._broker.logs.update_producers(
            expiration_ms=settings.config.producer_id_expiration_ms,
            verify_transactions=settings.config.transaction_partition_verification_enable,
        )

    def _cordon(self) -> None:
        """Apply cordoned.log.dirs to the log directories."""
        self._broker.logs.dirs.cordon(self._broker.settings.config.cordoned_log_dirs)

    def _apply_subscriptions(self, changed: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """Apply changed client metrics subscriptions."""
        kinds = {kind for kind, _ in self._broker.image.configs}
        self.asks_for_metrics = ConfigResourceType.CLIENT_METRICS in kinds
        telemetry = self._broker.telemetry_if_any
        if telemetry is not None:
            telemetry.follow(changed)

    def _apply_quotas(self, changed: Collection[ResourceKey]) -> None:
        """Apply the changed quotas; the first one begins their enforcement.

        Without quotas nothing is imported or measured.
        """
        if self.quotas is not None:
            self.quotas.follow(self._broker.image)
            return
        from kwire.security.quotas.enforced import begun

        self.quotas = begun(
            self._broker.config, self._broker.image, changed, lambda: time.monotonic() * 1000
        )
        if self.quotas is not None and self.on_quotas is not None:
            self.on_quotas(self.quotas)
