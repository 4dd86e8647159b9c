"""Verifications: the transaction coordinator confirms a producer's transaction (KIP-890).

Before a transaction's first batch is appended, the partition asks the transaction coordinator
whether the partition is part of it.  The object made when asking is the proof: it is forgotten
when a marker ends the transaction, so an answer that was overtaken by an abort proves nothing.
"""

from __future__ import annotations


class Verification:
    """A verification that is under way, or confirmed and not used yet."""

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(
        self, now_ms: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> None:
        """Begin a verification for a producer's epoch; `sequence` is of the batch that asked for
        it.
        """
        self.created_ms = now_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def join(self, sequence: int, epoch: int) -> None:
        """Add a batch to this verification; the one with the lowest sequence is written first."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
