"""Writing the marker that ends a transaction into one partition of this broker.

What the marker of a stale producer epoch or of a deposed coordinator is told is decided by the log
(kwire.log.producer_state).  In a partition of `__consumer_offsets` the offsets that the transaction
has committed count from the marker on, or never; the group coordinator must have replayed the
partition before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batches import ControlType, EndTxnMarker, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError
from kwire.topic_names import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.partition import Partition


class TxnMarker(NamedTuple):
    """How a transaction ended, who says so, and by which `transaction.version` (KIP-890)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int


def write_marker(
    broker: Broker,
    marker: TxnMarker,
    topic: str,
    index: int,
    settle: Callable[[ErrorCode], None],
) -> None:
    """Append `marker`; `settle` is told NONE once it is committed, or why it will not be.

    It is told at once where this broker is the only replica in sync.
    """
    try:
        partition = broker.led_partition(topic, index)
        _append(broker, marker, partition)
    except LogError as problem:
        settle(problem.error)
        return
    partition.when_replicated(partition.log_end_offset, settle)


def _append(broker: Broker, marker: TxnMarker, partition: Partition) -> None:
    now_ms = broker.now_ms()
    kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
    batch = control_batch(
        kind,
        marker.coordinator_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        timestamp=now_ms,
    )
    if partition.topic == GROUP_METADATA_TOPIC:
        broker.groups.end_transaction(
            partition.index,
            batch,
            commit=marker.commit,
            transaction_version=marker.transaction_version,
        )
    else:
        partition.append_marker(
            batch,
            EndTxnMarker(kind, marker.coordinator_epoch),
            now_ms=now_ms,
            transaction_version=marker.transaction_version,
        )
