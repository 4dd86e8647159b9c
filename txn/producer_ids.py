"""Producer ids: each idempotent producer gets an id that is never used twice (KIP-98, KIP-730).

A broker gets blocks of ids from the cluster's metadata store, and assigns the ids one by one.  The
rest of a block is lost when the broker stops, as in Apache Kafka.
"""

from __future__ import annotations

from collections import deque

BLOCK_SIZE = 1000
"""Ids in a block, as in Apache Kafka: one write to the store per thousand producers."""


class ProducerIds:
    """The producer ids that this broker has and has not assigned yet."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def take(self) -> int | None:
        """Return the next id, or None if the stock is empty: add a block first."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    def add(self, block: range) -> None:
        """Add a block from the store; its ids come after those in stock."""
        assert block.start >= 0, block
        assert block.step == 1, block
        if block:
            self._blocks.append(block)
