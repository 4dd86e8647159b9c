"""Batches that the disk had no room for, and the batches that their producers sent behind them.

The response to such a batch is KAFKA_STORAGE_ERROR, and the producer sends it again.  Until then
its next batches get the same error, even if there is room for them again.  They must not get
OUT_OF_ORDER_SEQUENCE_NUMBER: a client would bump its epoch for all partitions (KIP-360) and resend
all batches without a response, and those that other partitions have written would be there twice.

Apache Kafka has no such case: it takes a directory without room offline, and every later append
gets KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batch_layout import SEQUENCE_RANGE

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from kwire.log.producers.entry import ProducerEntry


class RefusedBatch(NamedTuple):
    """The epoch and first sequence number of a batch that was refused at `refused_ms`."""

    epoch: int
    sequence: int
    refused_ms: int

    def is_awaited_before(self, header: BatchHeader, entry: ProducerEntry | None) -> bool:
        """Return whether this batch has to be written before the batch with `header`."""
        ahead = (header.base_sequence - self.sequence) % SEQUENCE_RANGE
        if header.producer_epoch != self.epoch or not 0 < ahead < SEQUENCE_RANGE // 2:
            return False
        if entry is None or entry.epoch < self.epoch:
            return True
        return (entry.epoch, entry.next_sequence) == (self.epoch, self.sequence)
