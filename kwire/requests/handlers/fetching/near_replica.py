"""Fetch of a consumer that names its rack: the leader may send it to a near replica (KIP-392).

This needs `replica.selector.class` set to Apache Kafka's RackAwareReplicaSelector.  The leader
then considers the in-sync replicas, including itself, that have the fetch offset and an endpoint
on the consumer's listener:

    the leader, or no replica, is in the consumer's rack   the consumer reads from the leader
    else   from the replica in its rack with the highest log end offset; of several, the one that
           caught up last, then the one with the highest id

The response for a partition with a near replica comes at once and has no records.  The consumer
sends its next Fetch to that replica.  It returns after `metadata.max.age.ms`, or as soon as that
replica refuses it.
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
    """One Fetch request of a consumer that names its rack; see Fetch."""

    __slots__ = ("_listener", "_rack")

    def __init__(self, broker: Broker, request: FetchRequest, version: int, listener: str) -> None:
        super().__init__(broker, request, version)
        self._rack = request.rack_id
        self._listener = listener

    def _read(
        self, fetch_partition: FetchPartition, partition: Partition, room: int, nothing_yet: bool
    ) -> PartitionData:
        """Return the answer of Fetch._read, or one that sends the consumer to a nearer replica.

        The latter has no records.  LogError if the request names a wrong leader epoch or the log is
        offline.
        """
        near_replica_id = near_replica(
            partition, fetch_partition.fetch_offset, self._rack, self.broker.image, self._listener
        )
        if near_replica_id is None:
            return super()._read(fetch_partition, partition, room, nothing_yet)
        if fetch_partition.current_leader_epoch >= 0:
            partition.check_leader_epoch(fetch_partition.current_leader_epoch)
        partition.log.check_online()
        self.at_once = True
        return PartitionData(
            partition_index=fetch_partition.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=near_replica_id,
            records=b"",
        )


def near_replica(
    partition: Partition, offset: int, rack: str, image: ClusterImage, listener: str
) -> int | None:
    """The id of the broker to read `offset` of `partition` from; None for this broker."""
    leading = partition.leading
    if not isinstance(leading, Leading) or _rack_of(image, partition.node_id, listener) == rack:
        return None
    near = [
        follower
        for follower in leading.followers
        if follower.broker_id in partition.isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and _rack_of(image, follower.broker_id, listener) == rack
    ]
    return max(near, key=_preference).broker_id if near else None


def _preference(follower: Follower) -> tuple[int, int, int]:
    return follower.log_end_offset, follower.last_caught_up_ms, follower.broker_id


def _rack_of(image: ClusterImage, broker_id: int, listener: str) -> str | None:
    """The broker's rack; None if it is not alive or has no endpoint on `listener`."""
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.endpoint(listener) is None else broker.rack
