"""The API keys that have a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.codecs.api_keys import ApiKey
from kwire.requests.shortcuts.heartbeat import RepeatedConsumerGroupHeartbeat, RepeatedHeartbeat
from kwire.requests.shortcuts.list_offsets import RepeatedListOffsets
from kwire.requests.shortcuts.produce import RepeatedProduce
from kwire.requests.shortcuts.shortcut import Shortcut

SHORTCUTS: Mapping[int, Callable[[], Shortcut]] = {
    ApiKey.PRODUCE: RepeatedProduce,
    ApiKey.LIST_OFFSETS: RepeatedListOffsets,
    ApiKey.HEARTBEAT: RepeatedHeartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: RepeatedConsumerGroupHeartbeat,
}
