"""Writes the marker that ends a transaction into partitions that this broker leads.

The log refuses a marker of a stale producer epoch or of a fenced coordinator
(kwire.log.producers.state).  In a partition of `__consumer_offsets` the marker decides on the
offsets that the transaction committed, so the group coordinator appends it there, after it has
loaded the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.codecs.batch_layout import HEADER
from kwire.codecs.batches import ControlType, EndTxnMarker, control_batch, header_of
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError, MarkerBatch

if TYPE_CHECKING:
    from kwire.storage.partitions.hosted import HostedPartitions
    from kwire.storage.partitions.partition import Partition

Settle: TypeAlias = Callable[[str, int, ErrorCode], None]
"""Called when a marker is committed or refused later: topic name, partition number, error or
NONE."""


class TransactionalTopic(Protocol):
    """The group coordinator, which applies markers in the partitions of `__consumer_offsets`."""

    def end_transaction(
        self, index: int, marker: bytearray, *, commit: bool, transaction_version: int
    ) -> None:
        """Append a marker to a partition that this broker leads, and apply it.  Raises LogError."""


class TxnMarker(NamedTuple):
    """The end of one transaction, its coordinator, and its `transaction.version` (KIP-890)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int


class MarkerWriter:
    """Writes one marker into many partitions: the batches differ in their offset only."""

    __slots__ = ("_batch", "_groups", "_hosted", "_now_ms", "_settle", "marker")

    def __init__(
        self,
        hosted: HostedPartitions,
        groups: Callable[[], TransactionalTopic],
        marker: TxnMarker,
        settle: Settle,
        now_ms: int,
    ) -> None:
        """`groups` is called only for a marker in `__consumer_offsets`."""
        self._hosted = hosted
        self._groups = groups
        self.marker = marker
        self._settle = settle
        self._now_ms = now_ms
        kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
        batch = control_batch(
            kind,
            marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._now_ms,
        )
        self._batch = MarkerBatch(
            batch,
            header_of(HEADER.unpack_from(batch)),
            EndTxnMarker(kind, marker.coordinator_epoch),
            marker.transaction_version,
        )

    @staticmethod
    def write_together(
        writers: Sequence[MarkerWriter], topic: str, index: int
    ) -> list[ErrorCode | None]:
        """Append the markers of several transactions to one partition with one write.

        Returns the results of `write` in the order of `writers`.
        """
        first = writers[0]
        if len(writers) == 1 or topic == GROUP_METADATA_TOPIC:
            return [writer.write(topic, index) for writer in writers]
        try:
            partition = first._hosted.led(topic, index)
            batches = [writer._batch for writer in writers]
            errors = partition.append_markers(batches, now_ms=first._now_ms)
        except LogError as error:
            return [error.error] * len(writers)
        results: list[ErrorCode | None] = [*errors]
        end_offset = partition.log.log_end_offset
        if end_offset > partition.high_watermark:
            for number, refusal in enumerate(errors):
                if refusal is ErrorCode.NONE:
                    writers[number]._wait(partition, end_offset)
                    results[number] = None
        return results

    def __call__(self, topic: str, index: int) -> ErrorCode | None:
        return self.write(topic, index)

    def write(self, topic: str, index: int) -> ErrorCode | None:
        """Append the marker.  Returns NONE if it is committed, or the error that refused it.

        Returns None if replicas lack it still: `settle` is called later.
        """
        try:
            partition = self._hosted.led(topic, index)
            self._append(partition)
        except LogError as error:
            return error.error
        end_offset = partition.log.log_end_offset
        if end_offset <= partition.high_watermark:
            return ErrorCode.NONE
        self._wait(partition, end_offset)
        return None

    def _wait(self, partition: Partition, end_offset: int) -> None:
        """Report the result once all replicas have the records before `end_offset`."""
        settle, topic, index = self._settle, partition.topic, partition.index
        partition.when_replicated(end_offset, lambda code: settle(topic, index, code))

    def _append(self, partition: Partition) -> None:
        """Append the marker to one partition. Raises LogError.

        `__consumer_offsets` goes through the group coordinator, which also commits or drops the
        transaction's offsets. The batch is copied, because an append writes offsets into it.
        """
        marker, (batch, header, content, _) = self.marker, self._batch
        if partition.topic == GROUP_METADATA_TOPIC:
            self._groups().end_transaction(
                partition.index,
                batch.copy(),
                commit=marker.commit,
                transaction_version=marker.transaction_version,
            )
        else:
            partition.append_marker(
                batch.copy(),
                header,
                content,
                now_ms=self._now_ms,
                transaction_version=marker.transaction_version,
            )
