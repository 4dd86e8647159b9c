"""What a producer has sent behind a batch that there was no room for.

That batch was answered with KAFKA_STORAGE_ERROR, and comes again.  What the producer had sent
behind it by then is answered so too, even if there is room for it: it is not out of order.  Told
that it is, a client takes a new epoch for all its partitions (KIP-360), sends again what it has no
answer for, and what others had written of it is there twice.

Apache Kafka has no such case, for it takes a directory without room out of service, and everything
that comes then is answered with KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batch_layout import SEQUENCE_RANGE

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from kwire.log.producers.entry import ProducerEntry


class RefusedBatch(NamedTuple):
    """A batch that its producer might have written, had there been room at `refused_ms`."""

    epoch: int
    sequence: int
    refused_ms: int

    def is_awaited_before(self, header: BatchHeader, entry: ProducerEntry | None) -> bool:
        """Whether it was sent before the batch with `header`, and has not been written since."""
        ahead = (header.base_sequence - self.sequence) % SEQUENCE_RANGE
        if header.producer_epoch != self.epoch or not 0 < ahead < SEQUENCE_RANGE // 2:
            return False
        if entry is None or entry.epoch < self.epoch:
            return True
        return (entry.epoch, entry.next_sequence) == (self.epoch, self.sequence)
