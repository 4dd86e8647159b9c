"""State batches: ranges of offsets in one delivery state, as the share coordinator stores them.

A batch that is written later may overlap earlier ones.  For an offset in several batches, the batch
with the highest delivery count is valid, and among those the one with the highest state.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

NO_OFFSET = -1


class DeliveryState(IntEnum):
    """Delivery state of a record; the values are those of the log and of the protocol."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TERMINAL = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
"""States that a record never leaves."""


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, inclusive.  Compares as Apache Kafka does when it merges."""

    first: int
    last: int
    delivery_count: int
    state: int

    @property
    def delivery(self) -> tuple[int, int]:
        return self.delivery_count, self.state


def combine(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Merges batches into ones that do not overlap; drops offsets before `start_offset`.

    Adjacent batches of the same state and delivery count become one.  Like Apache Kafka, this
    finishes a batch once the next one does not touch it, so some adjacent batches can stay apart.
    """
    kept = [
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if start_offset == NO_OFFSET or batch.last >= start_offset
    ]
    if len(kept) < 2:
        return kept
    pending = kept
    heapify(pending)
    combined = []
    batch = heappop(pending)
    while pending:
        other = heappop(pending)
        if _touch(batch, other):
            for piece in _merged(batch, other):
                heappush(pending, piece)
            batch = heappop(pending)
        else:
            combined.append(batch)
            batch = other
    return [*combined, batch]


def _touch(batch: StateBatch, later: StateBatch) -> bool:
    if later.first <= batch.last:
        return True
    return later.first == batch.last + 1 and later.delivery == batch.delivery


def _merged(batch: StateBatch, later: StateBatch) -> list[StateBatch]:
    """Return the pieces of two touching batches; `later` does not begin before `batch`."""
    if batch.delivery == later.delivery:
        return [batch._replace(last=max(batch.last, later.last))]
    if later.delivery < batch.delivery:
        rest = later._replace(first=batch.last + 1)
        return [batch, rest] if rest.first <= rest.last else [batch]
    pieces = [later]
    if batch.first < later.first:
        pieces.append(batch._replace(last=later.first - 1))
    if later.last < batch.last:
        pieces.append(batch._replace(first=later.last + 1))
    return pieces
