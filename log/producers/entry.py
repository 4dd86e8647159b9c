"""The state of one producer id in a partition."""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.batch_layout import SEQUENCE_RANGE

NO_SEQUENCE = -1
NO_EPOCH = -1

BATCHES_KEPT = 5
"""The batches that an idempotent producer may have in flight: it may resend each one (KIP-98)."""


class WrittenBatch(NamedTuple):
    """A batch that was appended: the response to a duplicate is made of it.

    `timestamp` is the largest of the batch.  `offset_delta` is its last offset minus its first.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCE_RANGE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch, its last batches (newest last), and its open transaction.

    `txn_first_offset` is the first offset of the open transaction, -1 without one.
    `packed` are its bytes in a snapshot, None since its last change: most of 100,000 producers do
    not write between two snapshots.  Only the methods of this class change an entry.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "packed",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        txn_first_offset: int = -1,
        batches: list[WrittenBatch] | None = None,
    ) -> None:
        """Describe a producer; -1 means unknown, for the transaction: none is ongoing."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches = batches or []
        self.next_sequence = (self.last_sequence + 1) % SEQUENCE_RANGE
        self.packed: bytes | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find(self, epoch: int, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        """Return the written batch with exactly these sequence numbers, if it is among the last
        ones.
        """
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; a new epoch begins with sequence number 0."""
        self.packed = None
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def add(self, epoch: int, batch: WrittenBatch) -> None:
        """Note a batch that was written; the oldest is forgotten beyond `BATCHES_KEPT`."""
        if epoch == self.epoch:
            self.packed = None
        else:
            self.set_epoch(epoch)
        batches = self.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) % SEQUENCE_RANGE
        self.last_timestamp = batch.timestamp

    def begin_transaction(self, first_offset: int) -> None:
        """Note that a transaction is open from `first_offset` on."""
        self.packed = None
        self.txn_first_offset = first_offset

    def end_transaction(self, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Note the marker of a transaction, which has these values."""
        self.set_epoch(epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.txn_first_offset = -1
