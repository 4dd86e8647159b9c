"""What work on partitions asks of the broker that they are on; kwire.broker.Broker is one."""

from __future__ import annotations

from typing import Protocol

from kwire.partitions.partition import Partition


class TransactionalTopic(Protocol):
    """Who follows the markers in the partitions of `__consumer_offsets`."""

    def end_transaction(
        self, index: int, marker: bytearray, *, commit: bool, transaction_version: int
    ) -> None:
        """Append a marker to a partition led here and follow it.  Raises LogError."""


class PartitionHost(Protocol):
    """See the module."""

    @staticmethod
    def now_ms() -> int:
        """Wall clock in ms since the epoch."""

    @property
    def groups(self) -> TransactionalTopic: ...

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition, if it is here and led by this broker; LogError says what else."""
