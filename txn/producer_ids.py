"""Producer ids: every idempotent producer gets one of its own, never given twice (KIP-98, KIP-730).

The cluster's store hands a broker a block of ids, and the broker hands out the block one by one.
What is left of a block when the broker stops is lost, as it is with Apache Kafka.
"""

from __future__ import annotations

from collections import deque

BLOCK_SIZE = 1000
"""Ids asked for at once, Kafka's own number: one write of the store for a thousand producers."""


class ProducerIds:
    """The ids this broker holds and has not given out yet."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def take(self) -> int | None:
        """The next id; None when another block must be added first."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    def add(self, block: range) -> None:
        """Hold `block`, fresh from the store; it is handed out after the blocks held already."""
        assert block.start >= 0, block
        assert block.step == 1, block
        if block:
            self._blocks.append(block)
