"""The broker's metadata image and group settings, as groups see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.groups.surroundings import ConsumerSettings, ShareSettings, StreamsSettings
from kwire.settings.groups import effective_settings
from kwire.settings.resources import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.cluster.metadata.cache import MetadataCache
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.settings import BrokerConfig
    from kwire.settings.definitions.groups import GroupResourceSettings
    from kwire.settings.live import LiveSettings


class BrokerSurroundings:
    """Implements kwire.groups.surroundings.Surroundings."""

    def __init__(self, settings: LiveSettings, metadata: MetadataCache) -> None:
        """Reads the present settings and metadata at each call."""
        self._settings = settings
        self._metadata = metadata
        self._known: dict[str, ConsumerSettings] = {}
        """Cache by group id, for groups with settings of their own; "" is for all others."""
        self._made_of: tuple[object, object] = (None, None)
        """The broker's settings and the metadata's settings that the cache was made from."""

    @property
    def image(self) -> ClusterImage:
        return self._metadata.image

    def settings(self, group_id: str) -> ConsumerSettings:
        """Return the settings of a consumer group: its own, or the broker's.

        Each heartbeat asks for them, so they are cached until the broker's or the groups' settings
        change.
        """
        config, configs = self._settings.config, self._metadata.image.configs
        if self._made_of[0] is not config or self._made_of[1] is not configs:
            self._known.clear()  # also removes groups that have no settings of their own any more
            self._made_of = config, configs
        overrides = configs.get((ConfigResourceType.GROUP, group_id))
        name = "" if overrides is None else group_id
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _settings(config, overrides or {})
        return known

    def share_settings(self, group_id: str) -> ShareSettings:
        """Return the settings of a share group: its own, or the broker's."""
        overrides = self._metadata.image.configs_of(ConfigResourceType.GROUP, group_id)
        settings = effective_settings(self._settings.config, overrides)
        return ShareSettings(
            session_timeout_ms=settings.share_session_timeout_ms,
            heartbeat_interval_ms=settings.share_heartbeat_interval_ms,
            assignment_interval_ms=settings.share_assignment_interval_ms,
        )

    def streams_settings(self, group_id: str) -> StreamsSettings:
        """Return the settings of a streams group: its own, or the broker's."""
        overrides = self._metadata.image.configs_of(ConfigResourceType.GROUP, group_id)
        config = self._settings.config
        settings = effective_settings(config, overrides)
        return StreamsSettings(
            session_timeout_ms=settings.streams_session_timeout_ms,
            heartbeat_interval_ms=settings.streams_heartbeat_interval_ms,
            assignment_interval_ms=settings.streams_assignment_interval_ms,
            initial_rebalance_delay_ms=settings.streams_initial_rebalance_delay_ms,
            num_standby_replicas=settings.streams_num_standby_replicas,
            rack_aware_assignment_tags=settings.streams_rack_aware_assignment_tags,
            assignor_name=_assignor_name(config, settings),
            task_offset_interval_ms=settings.streams_task_offset_interval_ms,
            acceptable_recovery_lag=settings.streams_acceptable_recovery_lag,
        )


def _assignor_name(config: BrokerConfig, settings: GroupResourceSettings) -> str:
    """Return the chosen task assignor; the default one if the broker has it no more."""
    chosen, assignors = settings.streams_assignor_name, config.group_streams_assignors
    return chosen if chosen in assignors else assignors[0]


def _settings(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of a consumer group; `overrides` are its own, by name."""
    settings = effective_settings(config, overrides)
    return ConsumerSettings(
        session_timeout_ms=settings.consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
        assignment_interval_ms=settings.consumer_assignment_interval_ms,
        default_assignor=config.group_consumer_assignors[0],
    )
