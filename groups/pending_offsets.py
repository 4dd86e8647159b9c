"""Pending offsets: committed in transactions that are still open (KIP-98, KIP-447).

A pending offset is invisible until its producer's marker is in the log: COMMIT applies it, ABORT
drops it.  Until then the partition is unstable for OffsetFetch with `require_stable`.  The order in
the log decides: a pending offset that a later commit has overtaken is not applied when its
transaction commits, but its partition stays unstable until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.groups.offset_record import CommittedOffset, OffsetKey


class PendingOffsets:
    """The pending offsets of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._of_group: dict[str, dict[OffsetKey, dict[int, CommittedOffset | None]]] = {}
        """Group -> key -> producer id -> offset, in log order; None if it was overtaken."""
        self._of_producer: dict[int, set[OffsetKey]] = {}

    # -- queries

    def __contains__(self, key: OffsetKey) -> bool:
        return key in self._of_group.get(key.group_id, ())

    def of_group(self, group_id: str) -> Iterable[OffsetKey]:
        return self._of_group.get(group_id, ())

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        for keys in self._of_group.values():
            yield from (key for key in keys if key.topic == topic)

    # -- changes by records of the log

    def add(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Add an offset of the producer's transaction; it replaces an earlier one of its key.

        It moves behind the offsets of other producers: the order in the log decides.
        """
        offers = self._of_group.setdefault(key.group_id, {}).setdefault(key, {})
        offers.pop(producer_id, None)
        offers[producer_id] = committed
        self._of_producer.setdefault(producer_id, set()).add(key)

    def overtake(self, key: OffsetKey) -> None:
        """Note that a commit outside of transactions is later than the pending offsets of a key.

        These are no longer applied when their transactions commit.
        """
        keys = self._of_group.get(key.group_id)
        if keys is None:  # nearly always: no transaction commits offsets of the group
            return
        offers = keys.get(key, {})
        for producer_id in offers:
            offers[producer_id] = None

    def remove(self, key: OffsetKey) -> None:
        """Remove the pending offsets of a key, of all producers."""
        for producer_id in self._of_group.get(key.group_id, {}).get(key, ()):
            keys = self._of_producer[producer_id]
            keys.discard(key)
            if not keys:
                del self._of_producer[producer_id]
        self._forget(key)

    def end(self, producer_id: int, commit: bool) -> list[tuple[OffsetKey, CommittedOffset]]:
        """End a producer's transaction; return the offsets to apply, none if it is aborted."""
        applied = []
        for key in self._of_producer.pop(producer_id, ()):
            offers = self._of_group[key.group_id][key]
            committed = offers[producer_id]
            if commit and committed is not None:
                applied.append((key, committed))
                _overtake_before(offers, producer_id)
            del offers[producer_id]
            if not offers:
                self._forget(key)
        return applied

    def _forget(self, key: OffsetKey) -> None:
        """Remove a key for which no offset is pending any more."""
        keys = self._of_group.get(key.group_id)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._of_group[key.group_id]


def _overtake_before(offers: dict[int, CommittedOffset | None], producer_id: int) -> None:
    """Mark the offsets that were added before this producer's as overtaken."""
    for earlier in offers:
        if earlier == producer_id:
            return
        offers[earlier] = None
