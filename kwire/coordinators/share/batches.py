"""State batches: ranges of offsets in one delivery state, as the share coordinator stores them.

A batch that is written later may overlap earlier ones.  For an offset in several batches, the batch
with the highest delivery count is valid, and among those the one with the highest state.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

NO_OFFSET = -1

Delivery = tuple[int, int]
"""Delivery count and state."""


class DeliveryState(IntEnum):
    """Delivery state of a record; the values are those of the log and of the protocol."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """It is being written to the group's dead-letter topic, and archived afterwards."""
    ARCHIVED = 4


TERMINAL = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
"""States that a record never leaves."""


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, inclusive."""

    first: int
    last: int
    delivery_count: int
    state: int

    @property
    def delivery(self) -> Delivery:
        return self.delivery_count, self.state


def combine(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Merges batches into ones that do not overlap; drops offsets before `start_offset`.

    Adjacent batches of the same state and delivery count become one.  A single batch stays as it
    is.
    """
    kept = [
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if start_offset == NO_OFFSET or batch.last >= start_offset
    ]
    return kept if len(kept) < 2 else _swept(kept)


def _swept(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Walk over the offsets at which batches begin and end; each stretch has its valid batch."""
    begins: defaultdict[int, list[Delivery]] = defaultdict(list)
    ends: defaultdict[int, list[Delivery]] = defaultdict(list)
    for batch in batches:
        begins[batch.first].append(batch.delivery)
        ends[batch.last + 1].append(batch.delivery)
    combined: list[StateBatch] = []
    active: Counter[Delivery] = Counter()
    opened = NO_OFFSET
    valid: Delivery | None = None
    for offset in sorted(begins.keys() | ends.keys()):
        if valid is not None:
            _append(combined, StateBatch(opened, offset - 1, *valid))
        active.subtract(ends.get(offset, ()))
        active.update(begins.get(offset, ()))
        active = +active  # only those that are still open
        opened, valid = offset, max(active, default=None)
    return combined


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch, or lengthen the last one if it is adjacent and of the same delivery."""
    last = combined[-1] if combined else None
    if last is not None and last.last + 1 == batch.first and last.delivery == batch.delivery:
        combined[-1] = last._replace(last=batch.last)
    else:
        combined.append(batch)
