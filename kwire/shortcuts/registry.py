"""Which API keys have a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.codecs.api_keys import ApiKey
from kwire.shortcuts.list_offsets import RepeatedListOffsets
from kwire.shortcuts.produce import RepeatedProduce
from kwire.shortcuts.shortcut import Shortcut

SHORTCUTS: Mapping[int, Callable[[], Shortcut]] = {
    ApiKey.PRODUCE: RepeatedProduce,
    ApiKey.LIST_OFFSETS: RepeatedListOffsets,
}
