"""Shortcuts that count their answers; they exist only in a broker with metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.requests.shortcuts.heartbeat import (
    RepeatedConsumerGroupHeartbeat,
    RepeatedHeartbeat,
    RepeatedRequest,
)
from kwire.requests.shortcuts.list_offsets import RepeatedListOffsets
from kwire.requests.shortcuts.produce import RepeatedProduce

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.server.metrics.meters import RequestCounts


class MeasuredProduce(RepeatedProduce):
    """hits: the answers since the last `fold`; the connection counts them, and folds them before
    it calls `learn_as`.  All of them are for `counts`, and each reply has `reply_bytes` and
    `partitions`.
    """

    __slots__ = ("counts", "hits", "partitions", "reply_bytes")

    counts: RequestCounts

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0
        self.partitions = 1
        self.reply_bytes = 0

    def learn_as(self, counts: RequestCounts, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """As RepeatedProduce.learn; `counts` are those for the request."""
        self.learn(exchange, broker)
        remembered = self.remembered
        if remembered is not None:
            version, reply_bytes, self.partitions = remembered
            if version == counts.version:  # else it has learnt nothing
                self.counts, self.reply_bytes = counts, reply_bytes

    def fold(self) -> int:
        """Add the hits to the meter, and return their number."""
        return _fold(self)


class MeasuredListOffsets(RepeatedListOffsets):
    """As MeasuredProduce; remembers requests of one version, with replies of one size, only."""

    __slots__ = ("counts", "hits", "reply_bytes")

    counts: RequestCounts
    partitions = 1

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0
        self.reply_bytes = 0

    def learn_as(self, counts: RequestCounts, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """As RepeatedListOffsets.learn; forgets requests of another version or size of reply."""
        if self.reply_bytes != len(exchange.reply) or self.counts is not counts:  # 0 bytes at first
            self._remembered.clear()
            self.counts, self.reply_bytes = counts, len(exchange.reply)
        self.learn(exchange, broker)

    def fold(self) -> int:
        """Add the hits to the meter, and return their number."""
        return _fold(self)


class _CountedRequest(RepeatedRequest[Any]):
    """What the shortcuts for heartbeats have to count their answers, as MeasuredProduce."""

    counts: RequestCounts
    partitions = 1

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0
        self.reply_bytes = 0

    def learn_as(self, counts: RequestCounts, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """As `learn`; `counts` are those for the request."""
        self.learn(exchange, broker)
        if self.remembers(exchange.request):
            self.counts, self.reply_bytes = counts, len(exchange.reply)

    def fold(self) -> int:
        """Add the hits to the meter, and return their number."""
        return _fold(self)


class MeasuredHeartbeat(_CountedRequest, RepeatedHeartbeat):
    """See _CountedRequest."""


class MeasuredConsumerGroupHeartbeat(_CountedRequest, RepeatedConsumerGroupHeartbeat):
    """See _CountedRequest."""


MeasuredShortcut = (
    MeasuredProduce | MeasuredListOffsets | MeasuredHeartbeat | MeasuredConsumerGroupHeartbeat
)


def _fold(shortcut: MeasuredProduce | MeasuredListOffsets | _CountedRequest) -> int:
    """Add the hits to the meter: no partition of their responses has an error."""
    hits, shortcut.hits = shortcut.hits, 0
    if hits:
        counts = shortcut.counts
        meter = counts.meter
        meter.versions[counts.version] += hits
        meter.errors[0] += hits * shortcut.partitions
        meter.shortcuts += hits
        meter.response_bytes += hits * shortcut.reply_bytes
    return hits


MEASURED_SHORTCUTS: Final[Mapping[int, Callable[[], MeasuredShortcut]]] = {
    ApiKey.PRODUCE: MeasuredProduce,
    ApiKey.LIST_OFFSETS: MeasuredListOffsets,
    ApiKey.HEARTBEAT: MeasuredHeartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: MeasuredConsumerGroupHeartbeat,
}
"""As SHORTCUTS of kwire.requests.shortcuts.registry, which has the same keys."""
