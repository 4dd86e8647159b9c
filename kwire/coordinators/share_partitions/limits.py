"""The settings of a share group that affect the delivery of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.cluster.metadata.features import DEAD_LETTER_QUEUES, SHARE_VERSION
from kwire.coordinators.share.partition import ShareLimits
from kwire.settings.groups import effective_settings
from kwire.settings.resources import ConfigResourceType

if TYPE_CHECKING:
    from kwire.cluster.metadata.cache import MetadataCache
    from kwire.cluster.metadata.features import FinalizedFeatures
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings

READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class ShareDeliverySettings:
    """The delivery settings of one share group."""

    limits: ShareLimits
    offset_reset: str
    """`share.auto.offset.reset`: `latest`, `earliest`, or `by_duration:` with an ISO duration."""
    committed_only: bool
    """Whether `share.isolation.level` is read_committed."""
    dead_letter_topic: str = ""
    """`errors.deadletterqueue.topic.name`; empty for none."""
    copies_dead_letters: bool = False
    """`errors.deadletterqueue.copy.record.enable`."""


CacheEntry = tuple[
    "BrokerConfig", Mapping[str, str] | None, "FinalizedFeatures", ShareDeliverySettings
]


class ShareSettingsCache:
    """The delivery settings of groups, cached as long as the settings behind them are the same."""

    def __init__(self, settings: LiveSettings, metadata: MetadataCache) -> None:
        self._settings = settings
        self._metadata = metadata
        self._cache: dict[str, CacheEntry] = {}
        """By group id; "" for all groups without settings of their own."""

    def of(self, group_id: str) -> ShareDeliverySettings:
        """Return the delivery settings of a group: its own, or the broker's."""
        config, image = self._settings.config, self._metadata.image
        overrides = image.configs.get((ConfigResourceType.GROUP, group_id))
        # Groups without settings of their own share the entry "".
        name = "" if overrides is None else group_id
        entry = self._cache.get(name)
        if (
            entry is None
            or entry[0] is not config
            or entry[1] is not overrides
            or entry[2] is not image.features
        ):
            settings = _delivery_settings(config, overrides or {}, image.features)
            entry = self._cache[name] = config, overrides, image.features, settings
        return entry[3]


def _delivery_settings(
    config: BrokerConfig, overrides: Mapping[str, str], features: FinalizedFeatures
) -> ShareDeliverySettings:
    """Return the delivery settings; `overrides` are the group's own, by name."""
    settings = effective_settings(config, overrides)
    topic = settings.errors_deadletterqueue_topic_name
    limits = ShareLimits(
        max_record_locks=settings.share_partition_max_record_locks,
        max_deliveries=settings.share_delivery_count_limit,
        lock_ms=settings.share_record_lock_duration_ms,
        may_renew=settings.share_renew_acknowledge_enable,
        has_dead_letter_topic=bool(topic) and features.level(SHARE_VERSION) >= DEAD_LETTER_QUEUES,
    )
    committed_only = settings.share_isolation_level == READ_COMMITTED
    return ShareDeliverySettings(
        limits,
        settings.share_auto_offset_reset,
        committed_only,
        topic,
        settings.errors_deadletterqueue_copy_record_enable,
    )
