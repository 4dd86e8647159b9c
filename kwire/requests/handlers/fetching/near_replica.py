"""Fetch of a consumer that says where it is: it may be sent to a replica near it (KIP-392).

With `replica.selector.class` at Apache Kafka's RackAwareReplicaSelector the leader looks at the
replicas that are in sync, alive where the consumer looks for brokers, and have the offset asked
for, itself among them:

    none of them in the consumer's rack, or the leader is   it reads here
    else    the one with the longest log; of those the one caught up last, then the highest id

A partition that is read elsewhere is answered at once and without records: the consumer goes there
with its next Fetch, and comes back after `metadata.max.age.ms`, or when that one refuses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cluster.replication.leading import Leading
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, PartitionData
from kwire.requests.handlers.fetching.fetch import Fetch

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.storage.partitions.partition import Partition
    from kwire.storage.partitions.progress import Follower

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class RackAwareFetch(Fetch):
    """One request of such a consumer being answered; see Fetch."""

    __slots__ = ("_listener", "_rack")

    def __init__(self, broker: Broker, request: FetchRequest, version: int, listener: str) -> None:
        super().__init__(broker, request, version)
        self._rack = request.rack_id
        self._listener = listener

    def _read(
        self, asked: FetchPartition, partition: Partition, room: int, nothing_yet: bool
    ) -> PartitionData:
        chosen = near_replica(
            partition, asked.fetch_offset, self._rack, self.broker.image, self._listener
        )
        if chosen is None:
            return super()._read(asked, partition, room, nothing_yet)
        if asked.current_leader_epoch >= 0:
            partition.check_leader_epoch(asked.current_leader_epoch)
        partition.log.check_online()
        self.at_once = True
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=chosen,
            records=b"",
        )


def near_replica(
    partition: Partition, offset: int, rack: str, image: ClusterImage, listener: str
) -> int | None:
    """The broker to read `offset` of it from; None where that is this one."""
    leading = partition.leading
    if not isinstance(leading, Leading) or _rack_of(image, partition.node_id, listener) == rack:
        return None
    near = [
        each
        for each in leading.followers
        if each.broker_id in partition.isr
        and each.log_start_offset <= offset <= each.log_end_offset
        and _rack_of(image, each.broker_id, listener) == rack
    ]
    return max(near, key=_worth).broker_id if near else None


def _worth(follower: Follower) -> tuple[int, int, int]:
    return follower.log_end_offset, follower.last_caught_up_ms, follower.broker_id


def _rack_of(image: ClusterImage, broker_id: int, listener: str) -> str | None:
    """Where a broker is; None where clients of `listener` do not find it."""
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.endpoint(listener) is None else broker.rack
