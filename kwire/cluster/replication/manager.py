"""ReplicaManager: leads and follows the partitions of this broker that have several replicas.

Other modules decide what this broker leads and follows: `controller_requests` carries out the
requests of a controller, `roles` follows the metadata of KRaft controllers.  This class opens
partitions, fetches those that other brokers lead, tracks the followers of those led here, proposes
changes of their in-sync replicas, and enforces the replication quotas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import trio

from kwire.cluster.replication.fetchers import ReplicaFetchers
from kwire.cluster.replication.isr import IsrChanges
from kwire.cluster.replication.leading import LeaderContext, Leading
from kwire.cluster.replication.quotas import ReplicationQuotas
from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage, ResourceKey
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.cluster.replication.fetcher import ReplicaFetcher
    from kwire.log.directory.log_dir import LogDir
    from kwire.storage.partitions.partition import Partition


class ReplicaManager:
    """See the module.  No method awaits."""

    def __init__(self, host: ReplicationContext, nursery: trio.Nursery) -> None:
        """`nursery` runs the fetchers, and the tasks that change ISRs."""
        self._host = host
        self.hosted = host.hosted
        self.quotas = ReplicationQuotas(host)
        self._fetchers = ReplicaFetchers(host, nursery, self.quotas.follower)
        self._changes = IsrChanges(host)
        self._leaders = LeaderContext(
            self._changes,
            now_ms=host.now_ms,
            is_alive=lambda broker_id: broker_id in host.image.brokers,
            is_eligible=host.is_eligible,
            is_stale=host.is_stale,
            lag_max_ms=host.config.replica_lag_time_max_ms,
        )
        self._fetchers_wanted = host.config.num_replica_fetchers
        nursery.start_soon(self._changes.run)
        nursery.start_soon(self._watch_isr)

    async def _watch_isr(self) -> None:
        """Shrink ISRs periodically.

        A follower leaves at the latest 1.5 times replica.lag.time.max.ms after it fell behind.
        """
        while True:
            await trio.sleep(self._leaders.lag_max_ms / 2 / 1000)
            for partition in self.hosted:
                if partition.leading is not None:
                    partition.leading.maybe_shrink()

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        """Apply changed dynamic settings of this broker, and changed topic configs."""
        self.quotas.configs_changed(changed)
        wanted = self._host.config.num_replica_fetchers
        if wanted != self._fetchers_wanted:
            self._fetchers_wanted = wanted
            self._fetchers.rearrange()

    def logs_lost(self, lost: Iterable[Log]) -> None:
        """The log directory of these logs failed: stop fetching them."""
        for lost_log in lost:
            self._fetchers.forget(lost_log.topic, lost_log.partition)
        self._fetchers.end_idle()

    def step_down(self) -> None:
        """Stops leading and following all partitions.

        Other brokers may lead them by now.  Requests that wait in a partition are answered, and
        the coordinators of partitions that this broker led resign.
        """
        for partition in self.hosted:
            self._fetchers.forget(partition.topic, partition.index)
            was_leader = partition.is_leader
            partition.stop(partition.why_not_led())
            if was_leader:
                self.hosted.on_leadership_change(partition)
        self._fetchers.end_idle()

    @property
    def refused_isrs(self) -> int:
        """How many changes of ISRs the controller has refused."""
        return self._changes.refused

    @property
    def fetchers(self) -> list[ReplicaFetcher]:
        """The fetchers that run."""
        return self._fetchers.running

    # -- one partition

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        *,
        is_new: bool,
        directory: LogDir | None = None,
    ) -> Partition:
        """Opens a partition on its log, or on a new one.  Raises LogError.

        `is_new`: no directory that failed can have its log.  A new log is created in `directory`,
        or in the one with the fewest logs.
        """
        logs = self.hosted.logs
        has_log = (topic, index) in logs.logs
        if not has_log and not is_new and logs.offline_dirs:
            # Its log may be in the failed directory.  A new empty log would pass for a replica
            # that has all records.
            raise LogError(
                ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in a log directory that failed"
            )
        return self.hosted.open(topic, topic_id, index, has_followers=True, directory=directory)

    def follow(self, partition: Partition, image: PartitionImage) -> None:
        """Leads the partition or follows its leader, in a new leader epoch.  Raises LogError."""
        was_leader = partition.is_leader
        self._fetchers.forget(partition.topic, partition.index)
        partition.follow(image)
        if partition.is_leader:
            self._lead(partition, image, new_leader=not was_leader, new_epoch=True)
        elif partition.leader >= 0:
            partition.following = True
            self._fetchers.follow(partition)
        if was_leader or partition.is_leader:
            self.hosted.on_leadership_change(partition)

    def update(self, partition: Partition, image: PartitionImage) -> None:
        """Takes over replicas, ISR and partition epoch from `image`, of the same leader epoch.

        The ISR that this leader has proposed meanwhile stays proposed if the partition epoch is
        the same: the controller's answer to the proposal before it has arrived earlier.
        """
        is_known = image.partition_epoch == partition.partition_epoch
        partition.follow(image)
        if partition.is_leader:
            self._lead(partition, image, new_leader=False, new_epoch=False, is_known=is_known)

    def _lead(
        self,
        partition: Partition,
        image: PartitionImage,
        *,
        new_leader: bool,
        new_epoch: bool,
        is_known: bool = False,
    ) -> None:
        """Makes this broker the leader of a partition, in the leader epoch of `image`.

        `new_leader`: it was not the leader in the epoch before.  `new_epoch`: this leader epoch
        begins.  `is_known`: the partition had the ISR of `image` already.
        """
        # Without followers every record is committed as soon as it is in the log.
        if len(image.replicas) == 1:
            partition.leading = None
            partition.advance_high_watermark(partition.log.log_end_offset, 0)
            return
        leading = partition.leading
        if not isinstance(leading, Leading):
            # Its first followers join in the middle of a leader epoch, unless one begins.
            leading = partition.leading = Leading(partition, self._leaders)
            new_epoch = True
        leading.follow(image, new_leader=new_leader, new_epoch=new_epoch, is_known=is_known)

    def stop(self, topic: str, index: int) -> None:
        """Stops fetching a partition; its log stays."""
        self._fetchers.forget(topic, index)

    def delete(self, topic: str, index: int) -> None:
        """Stops serving a partition and deletes its log; does nothing if neither exists."""
        self._fetchers.forget(topic, index)
        self.hosted.drop(topic, index)

    def end_idle(self) -> None:
        """Ends fetchers without partitions; called after each request or delta."""
        self._fetchers.end_idle()
