"""Records of a coordinator that are applied now, and appended with the next of their partition.

The records of most decisions have to be in the log before their reply.  Some need not: a replay
without them leads to the same end (`Effects.deferrable`).  A producer of transactions nearly always
writes the next record of its partition within milliseconds, and one append of two records takes
little more than that of one.

Records that nothing else has taken along are appended DEFERRED_MS to twice as much later.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kwire.broker.timers import Timer, Timers
from kwire.log import LogError

log = logging.getLogger("kwire.coordinators.runtime")

Pair: TypeAlias = tuple[bytes, bytes | None]
"""The key and the value of a record."""

DEFERRED_MS = 50
"""A hundred producers that share one processor begin their next transactions within 40 ms."""

RETRY_MS = 1_000
"""Pause after an append of deferred records that failed."""

DEFERRED_BYTES_MAX = 8 * 1024
"""The most bytes of deferred records of one partition; further ones are appended with them."""

_RECORD_OVERHEAD_BYTES = 32
"""Upper bound of a record's lengths and deltas, so that a size is never underestimated."""


def size_of(pairs: Sequence[Pair]) -> int:
    """The most bytes that the records take in a batch."""
    size_bytes = 0
    for key, value in pairs:
        size_bytes += len(key) + _RECORD_OVERHEAD_BYTES
        if value is not None:
            size_bytes += len(value)
    return size_bytes


class DeferredRecords:
    """The deferred records of one partition; `since` is the round in which the oldest came."""

    __slots__ = ("pairs", "since", "size_bytes")

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.size_bytes = 0
        self.since = 0

    def clear(self) -> None:
        """Forget the records: they are appended, or the next leader of the partition decides."""
        if self.pairs:
            self.pairs = []
            self.size_bytes = 0


class DeferringShard(Protocol):
    """The part of a shard that this module needs."""

    @property
    def deferred(self) -> DeferredRecords: ...

    def write_deferred(self, now_ms: int) -> None:
        """Append the deferred records.  Raises LogError; they stay deferred then."""


class Deferrals:
    """The shards of one coordinator that have deferred records."""

    def __init__(self, timers: Timers, now_ms: Callable[[], int], *, is_used: bool) -> None:
        """Without `is_used` no record is deferred."""
        self._is_used = is_used
        self._timers = timers
        self._now_ms = now_ms
        self._shards: dict[DeferringShard, None] = {}
        self._round = 0
        self._timer = Timer(timers, math.inf, self._next_round)

    def defer(self, shard: DeferringShard, pairs: Sequence[Pair]) -> bool:
        """Keep the records for the next append; False if they have to be appended now."""
        deferred = shard.deferred
        size_bytes = deferred.size_bytes + size_of(pairs)
        if not self._is_used or size_bytes > DEFERRED_BYTES_MAX:
            return False
        if not deferred.pairs:
            deferred.since = self._round
            if not self._shards:
                self._timer.move(self._timers.now_ms() + DEFERRED_MS)
            self._shards[shard] = None
        deferred.pairs += pairs
        deferred.size_bytes = size_bytes
        return True

    def write_all(self) -> None:
        """Append all deferred records: the broker stops, or its files are copied.

        An error is logged: what is missing is decided again after the next start.
        """
        for shard in self._shards:
            self._write(shard)

    def _next_round(self) -> None:
        """Append what was deferred before this round."""
        waiting: dict[DeferringShard, None] = {}
        delay_ms = DEFERRED_MS
        for shard in self._shards:
            if not shard.deferred.pairs:
                continue
            if shard.deferred.since == self._round:
                waiting[shard] = None
            elif not self._write(shard):
                waiting[shard] = None
                delay_ms = RETRY_MS
        self._round += 1
        self._shards = waiting
        if waiting:
            self._timer.move(self._timers.now_ms() + delay_ms)

    def _write(self, shard: DeferringShard) -> bool:
        """Append the deferred records of a shard; return whether that succeeded."""
        try:
            shard.write_deferred(self._now_ms())
        except LogError as error:
            log.warning("Cannot append to the %s: %s. This is tried again.", shard, error)
            return False
        return True
