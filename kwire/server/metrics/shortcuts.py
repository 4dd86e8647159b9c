"""Shortcuts that count their answers; they exist only in a broker with metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.requests.shortcuts.list_offsets import RepeatedListOffsets
from kwire.requests.shortcuts.produce import RepeatedProduce

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.server.metrics.meters import RequestMeter


class MeasuredProduce(RepeatedProduce):
    """hits: the answers since the last `fold`; the connection counts them, and folds them before
    it calls `learn`.  All of them have `version`, and `reply_bytes` are the size of each reply.
    """

    __slots__ = ("hits", "meter", "reply_bytes", "version")

    def __init__(self, meter: RequestMeter) -> None:
        super().__init__()
        self.meter = meter
        self.hits = 0
        self.version = -1
        self.reply_bytes = 0

    def learn(self, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """As RepeatedProduce.learn; all later hits are of the version that is learnt."""
        super().learn(exchange, broker)
        self.version = int.from_bytes(self._kind[2:])
        self.reply_bytes = len(self._reply)

    def fold(self) -> int:
        """Add the hits to the meter, and return their number."""
        return _fold(self)


class MeasuredListOffsets(RepeatedListOffsets):
    """As MeasuredProduce; remembers requests of one version, with replies of one size, only."""

    __slots__ = ("hits", "meter", "reply_bytes", "version")

    def __init__(self, meter: RequestMeter) -> None:
        super().__init__()
        self.meter = meter
        self.hits = 0
        self.version = -1
        self.reply_bytes = 0

    def learn(self, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """As RepeatedListOffsets.learn; forgets requests of another version or size of reply."""
        kind = exchange.version, len(exchange.reply)
        if kind != (self.version, self.reply_bytes):
            self._remembered.clear()
            self.version, self.reply_bytes = kind
        super().learn(exchange, broker)

    def fold(self) -> int:
        """Add the hits to the meter, and return their number."""
        return _fold(self)


MeasuredShortcut = MeasuredProduce | MeasuredListOffsets


def _fold(shortcut: MeasuredShortcut) -> int:
    """Add the hits to the meter: their responses have one partition each, without an error."""
    hits, shortcut.hits = shortcut.hits, 0
    if hits:
        meter = shortcut.meter
        meter.versions[shortcut.version] += hits
        meter.errors[0] += hits
        meter.shortcuts += hits
        meter.response_bytes += hits * shortcut.reply_bytes
    return hits


MEASURED_SHORTCUTS: Final[Mapping[int, Callable[[RequestMeter], MeasuredShortcut]]] = {
    ApiKey.PRODUCE: MeasuredProduce,
    ApiKey.LIST_OFFSETS: MeasuredListOffsets,
}
"""As SHORTCUTS of kwire.requests.shortcuts.registry, which has the same keys."""
