"""The settings of a share group, as its records are dealt out by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.coordinators.share.partition import ShareLimits
from kwire.settings.groups import group_settings
from kwire.settings.resources import ConfigResourceType

if TYPE_CHECKING:
    from kwire.cluster.metadata.cache import MetadataCache
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings

READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    limits: ShareLimits
    offset_reset: str
    """`latest`, `earliest`, or `by_duration:` and how far back."""
    committed_only: bool


Known = tuple["BrokerConfig", Mapping[str, str] | None, GroupSettings]


class ShareSettings:
    """What was made of a group's settings is kept as long as they are the same."""

    def __init__(self, settings: LiveSettings, metadata: MetadataCache) -> None:
        self._settings = settings
        self._metadata = metadata
        self._known: dict[str, Known] = {}

    def of(self, group_id: str) -> GroupSettings:
        config = self._settings.config
        overrides = self._metadata.image.configs.get((ConfigResourceType.GROUP, group_id))
        name = "" if overrides is None else group_id
        known = self._known.get(name)
        if known is None or known[0] is not config or known[1] is not overrides:
            known = config, overrides, _made_of(config, overrides or {})
            self._known[name] = known
        return known[2]


def _made_of(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupSettings:
    settings = group_settings(config, overrides)
    limits = ShareLimits(
        max_record_locks=settings.share_partition_max_record_locks,
        max_deliveries=settings.share_delivery_count_limit,
        lock_ms=settings.share_record_lock_duration_ms,
        may_renew=settings.share_renew_acknowledge_enable,
    )
    committed_only = settings.share_isolation_level == READ_COMMITTED
    return GroupSettings(limits, settings.share_auto_offset_reset, committed_only)
