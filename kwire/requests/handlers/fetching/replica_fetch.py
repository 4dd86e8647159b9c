"""A follower's Fetch: it reads the whole log of the leader and reports the follower's progress.

Differences from a consumer's Fetch (kwire.requests.handlers.fetching.fetch):
- It reads up to the log end offset, not the high watermark, and waits for appends.
- Its fetch offset is what the follower has.  The leader records this progress once per request and
  after the read, so the response has the high watermark from before that progress.
- Only the leader serves it, and only to replicas of the partition.  Any other broker gets
  NOT_LEADER_OR_FOLLOWER or, if it named the right leader epoch, UNKNOWN_LEADER_EPOCH.
- A follower that is not in the ISR gets records of a throttled partition only while the replication
  quota is not exceeded (kwire.cluster.replication.quotas).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from kwire.cluster.replication.leading import check_replica
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.log import LogError, Region
from kwire.requests.handlers.fetching.fetch import REPLICA_STATE_SINCE, Fetch, diverging_epoch
from kwire.storage.partitions.fetch_sessions import Answers, FetchTarget

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.storage.partitions.partition import FetchWaiter, Partition
    from kwire.storage.partitions.progress import Follower
    from kwire.storage.partitions.purgatory import ExpiredRequests
    from kwire.storage.partitions.replication_quota import ReplicationQuota

PARTITION_BYTES: Final = 40
"""Size of a partition's answer without its records, from version 12 on."""


class ReplicaFetch(Fetch):
    """One Fetch request of a follower; see Fetch."""

    __slots__ = ("_is_first", "_quota", "_replica_epoch", "_replica_id")

    from_replica: ClassVar[bool] = True

    def __init__(self, broker: Broker, request: FetchRequest, version: int) -> None:
        """Take the follower's id and epoch; from version 15 they are in the replica state.

        The epoch is -1 in older versions: then the leader does not check it.
        """
        super().__init__(broker, request, version)
        self.committed_only = False
        self._replica_id, self._replica_epoch = request.replica_id, -1
        if version >= REPLICA_STATE_SINCE and request.replica_state is not None:
            self._replica_id = request.replica_state.replica_id
            self._replica_epoch = request.replica_state.replica_epoch
        self._is_first = True
        replication = broker.membership.replication
        self._quota = None if replication is None else replication.quotas.leader

    def read(self) -> bool:
        """Read all partitions as Fetch.read; the first call records the follower's progress."""
        answers: Answers = []
        self.answers, self.unknown = answers, []
        self.at_once = False
        self.available_bytes = 0
        room = self.max_bytes
        found = read_bytes = ends = 0
        for target in self.plan.targets.values():
            partition = target.partition
            if partition is None or partition.leader != self.broker.node_id:
                partition = self._find(target)
                if partition is None:
                    continue
            found += 1
            ends += partition.log.log_end_offset
            try:
                if self._has_no_news(target, partition):
                    continue
                data = self._read(target.asked, partition, room, read_bytes == 0)
                if data.diverging_epoch is None:
                    target.sound = target.asked
            except LogError as error:
                data = self._refusal(target.asked, error.error, partition)
            if isinstance(data.records, Region):
                read_bytes += data.records.size_bytes
                room = max(0, room - data.records.size_bytes)
            if self.plan.session is None or not target.knows(data):
                answers.append((target, data))
        self._is_first = False
        self.watermarks = ends
        return (
            read_bytes >= self.min_bytes
            or self.at_once
            or found == 0
            or self.available_bytes >= self.min_bytes
            or self._ends_in_older_segment()
        )

    def _has_no_news(self, target: FetchTarget, partition: Partition) -> bool:
        """Whether `_read` would find only what the follower knows; records its progress if so.

        This is the usual case in a session of many partitions.  Each condition rules out one thing
        that `_read` would report.  Logs that agreed cannot diverge within one leader epoch: then
        the leader only appends.  LogError as for `_record_progress`.
        """
        asked, log = target.asked, partition.log
        if (
            asked is not target.sound
            or asked.fetch_offset != log.log_end_offset
            or asked.current_leader_epoch != partition.leader_epoch
            or target.high_watermark != partition.high_watermark
            or target.log_start_offset != log.log_start_offset
            or self.plan.session is None
            or log.offline
        ):
            return False
        if self._is_first:
            self._record_progress(
                asked, partition, check_replica(partition, self._replica_id, named_epoch=True)
            )
        return True

    def _record_progress(
        self, asked: FetchPartition, partition: Partition, follower: Follower
    ) -> None:
        """Note how far the follower is.  LogError if it has restarted since it sent the fetch."""
        if partition.leading is not None:
            partition.leading.fetched(
                follower, asked.fetch_offset, asked.log_start_offset, self._replica_epoch
            )

    def _may_read_follower(self, partition: Partition) -> bool:
        return False

    def _read(
        self, fetch_partition: FetchPartition, partition: Partition, room: int, nothing_yet: bool
    ) -> PartitionData:
        """Return the records of one partition up to the log end offset.

        The first read also records the follower's progress.  LogError if the sender is not a
        replica, or names a wrong leader epoch or offset.
        """
        named_epoch = fetch_partition.current_leader_epoch >= 0
        if named_epoch:
            partition.check_leader_epoch(fetch_partition.current_leader_epoch)
        follower = check_replica(partition, self._replica_id, named_epoch=named_epoch)
        log = partition.log
        log.check_online()
        data = PartitionData(
            partition_index=fetch_partition.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if fetch_partition.last_fetched_epoch >= 0:
            diverging = diverging_epoch(fetch_partition, partition)
            if diverging is not None:
                data.diverging_epoch = diverging
                self.at_once = True
                return data
        if not self._is_throttled(fetch_partition, partition):
            self._add_records(
                data, fetch_partition, partition, log.log_end_offset, room, nothing_yet
            )
        # After the read, which may have raised: an offset outside the log is no progress.
        if self._is_first:
            self._record_progress(fetch_partition, partition, follower)
        return data

    def _is_throttled(self, fetch_partition: FetchPartition, partition: Partition) -> bool:
        """Whether the replication quota keeps back the records of this partition."""
        quota, log = self._quota, partition.log
        return (
            quota is not None
            and bool(quota.throttled)
            and quota.is_throttled(partition.topic, partition.index)
            and self._replica_id not in partition.isr
            and log.log_start_offset <= fetch_partition.fetch_offset <= log.log_end_offset
            and quota.is_exceeded(self.broker.now_ms())
        )

    def response(self) -> FetchResponse:
        """Return the response, and count the records of throttled partitions against the quota."""
        if self._quota is not None and self._quota.throttled and not self.plan.overtaken:
            self._count(self._quota)
        return super().response()

    def _count(self, quota: ReplicationQuota) -> None:
        """Count the size of the throttled partitions' records against the leader's `quota`."""
        throttled = [
            data
            for target, data in self.answers
            if target.topic is not None and quota.is_throttled(target.topic, data.partition_index)
        ]
        quota.record(sum(map(_size_bytes, throttled)), self.broker.now_ms())

    def _end_of(self, data: PartitionData, target: FetchTarget) -> int:
        partition = target.partition
        return data.high_watermark if partition is None else partition.log.log_end_offset

    def _count_expired(self, expired: ExpiredRequests) -> None:
        expired.follower_fetches += 1

    def _waiters(self, partition: Partition) -> set[FetchWaiter]:
        return partition.replica_waiters

    def _watermark(self, partition: Partition) -> int:
        return partition.log.log_end_offset


def _size_bytes(data: PartitionData) -> int:
    records = data.records
    return PARTITION_BYTES + (records.size_bytes if isinstance(records, Region) else 0)
