"""What groups look at outside their partition: settings, and the cluster's topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.groups.surroundings import ConsumerSettings, ShareSettings, StreamsSettings
from kwire.settings.groups import group_settings
from kwire.settings.resources import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.cluster.metadata.cache import MetadataCache
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings


class BrokerSurroundings:
    """See kwire.groups.surroundings."""

    def __init__(self, settings: LiveSettings, metadata: MetadataCache) -> None:
        self._settings = settings
        self._metadata = metadata
        self._known: dict[str, ConsumerSettings] = {}
        """By group that has settings of its own, "" for all others; of these settings:"""
        self._made_of: tuple[object, object] = (None, None)

    @property
    def image(self) -> ClusterImage:
        return self._metadata.image

    def settings(self, group_id: str) -> ConsumerSettings:
        config, configs = self._settings.config, self._metadata.image.configs
        if self._made_of[0] is not config or self._made_of[1] is not configs:
            self._known.clear()  # so those of groups that have none any more are not kept
            self._made_of = config, configs
        overrides = configs.get((ConfigResourceType.GROUP, group_id))
        name = "" if overrides is None else group_id
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _settings(config, overrides or {})
        return known

    def share_settings(self, group_id: str) -> ShareSettings:
        overrides = self._metadata.image.configs_of(ConfigResourceType.GROUP, group_id)
        settings = group_settings(self._settings.config, overrides)
        return ShareSettings(
            session_timeout_ms=settings.share_session_timeout_ms,
            heartbeat_interval_ms=settings.share_heartbeat_interval_ms,
            assignment_interval_ms=settings.share_assignment_interval_ms,
        )

    def streams_settings(self, group_id: str) -> StreamsSettings:
        overrides = self._metadata.image.configs_of(ConfigResourceType.GROUP, group_id)
        settings = group_settings(self._settings.config, overrides)
        return StreamsSettings(
            session_timeout_ms=settings.streams_session_timeout_ms,
            heartbeat_interval_ms=settings.streams_heartbeat_interval_ms,
            assignment_interval_ms=settings.streams_assignment_interval_ms,
            initial_rebalance_delay_ms=settings.streams_initial_rebalance_delay_ms,
            num_standby_replicas=settings.streams_num_standby_replicas,
        )


def _settings(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerSettings:
    settings = group_settings(config, overrides)
    return ConsumerSettings(
        session_timeout_ms=settings.consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
        assignment_interval_ms=settings.consumer_assignment_interval_ms,
        default_assignor=config.group_consumer_assignors[0],
    )
