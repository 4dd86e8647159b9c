"""A partition that counts what is appended to it; it exists only in a broker with metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.codecs.errors import ErrorCode
    from kwire.log import Log
    from kwire.server.metrics.meters import Meters, TopicMeter
    from kwire.storage.partitions.flushing import Flusher


class MeasuredPartition(Partition):
    """Counts appended bytes at once, and records by how far the log end offset went.

    `meter` is that of the topic.  Only a leader's log end offset grows by appends, and it never
    falls while it leads, so `fold` and each change of the leader add its growth to the meter.
    """

    __slots__ = ("_counted_to", "_recompressed", "meter")

    def __init__(
        self,
        meters: Meters,
        log: Log,
        node_id: int,
        flusher: Flusher | None = None,
        high_watermark: int | None = None,
    ) -> None:
        super().__init__(log, node_id, flusher, high_watermark)
        self.meter: TopicMeter = meters.topic(log.topic)
        self._counted_to = log.log_end_offset
        self._recompressed = log.recompressed_records

    def fold(self) -> None:
        """Add the records that were appended as the leader since the last call to the meter."""
        end = self.log.log_end_offset
        if self.is_leader:
            self.meter.messages_in += end - self._counted_to
        self._counted_to = end
        recompressed = self.log.recompressed_records
        if recompressed > self._recompressed:  # it begins at 0 if the log was replaced
            self.meter.produce_conversions += recompressed - self._recompressed
        self._recompressed = recompressed

    def follow(self, state: PartitionImage) -> None:
        """As Partition.follow; what was appended under the old state counts before."""
        self.fold()
        super().follow(state)

    def stop(self, error: ErrorCode) -> None:
        """As Partition.stop; what was appended before still counts."""
        self.fold()
        super().stop(error)

    def followed(self, high_watermark: int, log_start_offset: int, size_bytes: int) -> None:
        """As Partition.followed; counts the bytes from the leader."""
        self.meter.replication_bytes_in += size_bytes
        super().followed(high_watermark, log_start_offset, size_bytes)

    def _appended(self, size_bytes: int, appends: int = 1) -> None:
        """As Partition._appended; the usual case is written here again, to save a call."""
        meter = self.meter
        meter.bytes_in += size_bytes
        meter.produce_requests += appends
        if self.leading is not None or self._flush_end or self.log.flush_due:
            super()._appended(size_bytes, appends)
        else:
            self._advance(self.log.log_end_offset, size_bytes)


def measured_partitions(meters: Meters) -> Callable[..., Partition]:
    """What makes the partitions of a broker with metrics, called as the class Partition is."""
    return partial(MeasuredPartition, meters)
