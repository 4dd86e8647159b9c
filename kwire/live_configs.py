"""What is set at run time on topics, clients and this broker, made to act."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from kwire.metadata.entities import ENTITY_RESOURCE
from kwire.settings import CLUSTER_DEFAULT, ConfigError, ConfigResourceType

if TYPE_CHECKING:
    from kwire.log import LogConfig, LogManager
    from kwire.metadata.image import ClusterImage, ResourceKey
    from kwire.partitions.partition import Partition
    from kwire.quotas.enforced import ClientQuotas
    from kwire.replication.manager import ReplicaManager
    from kwire.settings import BrokerConfig
    from kwire.telemetry.service import ClientTelemetry

log = logging.getLogger("kwire.broker")


class ConfiguredHost(Protocol):
    """What lives by configs; kwire.broker.Broker is one."""

    node_id: int
    static_config: BrokerConfig
    config: BrokerConfig
    image: ClusterImage
    logs: LogManager
    partitions: dict[str, dict[int, Partition]]
    asks_for_metrics: bool
    quotas: ClientQuotas | None
    on_quotas: Callable[[ClientQuotas], None] | None
    replication: ReplicaManager | None

    @property
    def has_telemetry(self) -> bool: ...

    @property
    def telemetry(self) -> ClientTelemetry: ...

    def log_config(self, topic: str) -> LogConfig: ...


def apply_configs(broker: ConfiguredHost, changed: Mapping[ResourceKey, Mapping[str, str]]) -> None:
    """Topics, clients and this broker live by the new configs of `changed` from now on."""
    if any(kind == ENTITY_RESOURCE for kind, _ in changed):
        _apply_quotas(broker, changed)
    own = (ConfigResourceType.BROKER, str(broker.node_id))
    everyone = (ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    if own in changed or everyone in changed:
        _apply_own(broker, everyone, own)
        topics = set(broker.partitions)
    else:
        topics = {name for kind, name in changed if kind == ConfigResourceType.TOPIC}
    for name in topics & broker.partitions.keys():
        config = broker.log_config(name)
        for partition in broker.partitions[name].values():
            partition.log.update_config(config)
    if any(kind == ConfigResourceType.CLIENT_METRICS for kind, _ in changed):
        _apply_subscriptions(broker, changed)
    if broker.replication is not None:
        broker.replication.configs_changed(changed)


def _apply_own(broker: ConfiguredHost, everyone: ResourceKey, own: ResourceKey) -> None:
    image = broker.image
    try:
        broker.config = broker.static_config.with_dynamic(
            image.configs_of(*everyone), image.configs_of(*own)
        )
    except ConfigError as problem:
        log.error("the broker's dynamic configs are not applied: %s", problem)
    broker.logs.update_producers(
        expiration_ms=broker.config.producer_id_expiration_ms,
        verify_transactions=broker.config.transaction_partition_verification_enable,
    )


def _apply_subscriptions(
    broker: ConfiguredHost, changed: Mapping[ResourceKey, Mapping[str, str]]
) -> None:
    kinds = {kind for kind, _ in broker.image.configs}
    broker.asks_for_metrics = ConfigResourceType.CLIENT_METRICS in kinds
    if broker.has_telemetry:
        broker.telemetry.follow(changed)


def _apply_quotas(broker: ConfiguredHost, changed: Collection[ResourceKey]) -> None:
    if broker.quotas is not None:
        broker.quotas.follow(broker.image)
        return
    from kwire.quotas.enforced import begun

    broker.quotas = begun(broker.config, broker.image, changed)
    if broker.quotas is not None and broker.on_quotas is not None:
        broker.on_quotas(broker.quotas)
