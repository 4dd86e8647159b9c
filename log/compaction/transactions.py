"""Finds the batches of aborted transactions while a log is read from front to back.

A marker may go only when nothing of its transaction was met on the way: a reader of what is left
would otherwise take the transaction for an open one (Kafka's CleanedTransactionMetadata).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from kwire.codecs.batches import BatchHeader, ControlType, EndTxnMarker
from kwire.log.index.txn_index import AbortedTxn


@dataclass(slots=True)
class _Ongoing:
    aborted: AbortedTxn
    met: bool = False  # a batch of it


class CleanedTransactions:
    """Gets the aborted transactions of each segment, and then its batches in order.

    `kept` gathers the entries of the new transaction index.
    """

    def __init__(self) -> None:
        self._committed: set[int] = set()
        self._ongoing: dict[int, _Ongoing] = {}
        self._coming: list[tuple[int, AbortedTxn]] = []
        self.kept: list[AbortedTxn] = []

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions; known ones are ignored."""
        for each in aborted:
            heapq.heappush(self._coming, (each.first_offset, each))

    @property
    def has_open(self) -> bool:
        """Whether an aborted transaction may continue after the batches that were read."""
        return bool(self._ongoing or self._coming)

    def _begin(self, offset: int) -> None:
        """Begin the aborted transactions whose first offset is at most `offset`."""
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, aborted = heapq.heappop(coming)
            self._ongoing.setdefault(aborted.producer_id, _Ongoing(aborted))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of a data batch were aborted."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.met = True
        return True

    def is_empty(self, header: BatchHeader, marker: EndTxnMarker | None) -> bool:
        """Return whether no record is left of the transaction that a control batch with a record
        ends.
        """
        self._begin(header.last_offset)
        if marker is None:
            return False  # a control record of another kind
        if marker.kind is ControlType.COMMIT:
            if header.producer_id not in self._committed:
                return True
            self._committed.discard(header.producer_id)
            return False
        ongoing = self._ongoing.pop(header.producer_id, None)
        if ongoing is None or not ongoing.met:
            return True
        self.kept.append(ongoing.aborted)
        return False
