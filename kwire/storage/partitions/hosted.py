"""The partitions of which this broker has a replica, and their logs.

`HostedPartitions` opens, finds and drops partitions, both for a broker alone and for a member of a
cluster.  Other modules decide which partitions these are: a broker alone follows its own metadata
(`kwire.cluster.membership.alone`); a member follows LeaderAndIsr and StopReplica of the controller
(`kwire.cluster.replication.controller_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import Log, LogConfig, LogError, LogManager
from kwire.log.directory.log_dir import LogDir
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.purgatory import ExpiredRequests

PartitionKey: TypeAlias = tuple[str, int]
"""The topic's name and the partition number."""


def _ignore(partition: Partition) -> None:
    """The default of the callbacks: nobody follows this."""


class HostedPartitions:
    """The partitions of one broker.

    by_topic               the partitions, by topic name and partition number
    absent                 partitions whose logs may be in an offline log directory.  They are not
                           created again: an empty log in their place would look as if all records
                           were lost
    on_leadership_change   called when this broker begins to lead a partition, leads it in a new
                           epoch, or stops leading it; coordinators load and resign by it
    on_moved               called when a partition's log is in another log directory
    expired                the requests for partitions that waited in vain
    make_partition         makes a partition, as the class Partition does; metrics replace it
    """

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        flusher: Flusher,
        log_config: Callable[[str], LogConfig],
    ) -> None:
        """`log_config` returns the configs of a topic's logs by the topic's name."""
        self.node_id: Final = node_id
        self.logs: Final = logs
        self.by_topic: dict[str, dict[int, Partition]] = {}
        self.absent: set[PartitionKey] = set()
        self.on_leadership_change: Callable[[Partition], None] = _ignore
        self.on_moved: Callable[[Partition], None] = _ignore
        self.expired = ExpiredRequests()
        self.make_partition: Callable[..., Partition] = Partition
        self._flusher = flusher
        self._log_config = log_config
        # Checkpoints may be written before the upkeep begins, for example with a new log.
        logs.maintenance.high_watermark_of = self.high_watermark_of

    def __iter__(self) -> Iterator[Partition]:
        """A copy of all partitions: the loop's body may open and drop some."""
        return iter([each for hosted in self.by_topic.values() for each in hosted.values()])

    def get(self, topic: str, index: int) -> Partition | None:
        hosted = self.by_topic.get(topic)
        return None if hosted is None else hosted.get(index)

    def led(self, topic: str, index: int) -> Partition:
        """Return the partition, if this broker leads it.

        Raises LogError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        partition = self.get(topic, index)
        if partition is None:
            raise LogError(self.absent_error(topic, index))
        partition.check_leads()
        partition.log.check_online()
        return partition

    def absent_error(self, topic: str, index: int) -> ErrorCode:
        """Return the error for a request to a partition that this broker does not host.

        NOT_LEADER_OR_FOLLOWER if its log directory was offline at start: the partition exists.
        """
        if (topic, index) in self.absent:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def high_watermark_of(self, log: Log) -> int:
        """Return the high watermark of `log`, for its checkpoint and for retention.

        It is that of the last checkpoint while no partition is open on the log.
        """
        partition = self.get(log.topic, log.partition)
        if partition is not None:
            return partition.high_watermark
        return min(self._checkpointed(log), log.log_end_offset)

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        *,
        has_followers: bool = False,
        directory: LogDir | None = None,
    ) -> Partition:
        """Open the partition on its log; create the log if there is none.

        A new log is created in `directory`; with None the log manager chooses one.  A log without a
        topic id gets `topic_id`.  With followers the high watermark begins at the
        last checkpoint; without followers the whole log is committed.  Raises LogError.
        """
        log = self.logs.logs.get((topic, index))
        if log is None:
            log = self.logs.create(topic, topic_id, index, self._log_config(topic), directory)
        elif log.topic_id == ZERO_UUID != topic_id:
            log.adopt_topic_id(topic_id)
        high_watermark = None
        if has_followers:
            high_watermark = max(self._checkpointed(log), log.log_start_offset)
        partition = self.make_partition(log, self.node_id, self._flusher, high_watermark)
        self.by_topic.setdefault(topic, {})[index] = partition
        return partition

    def _checkpointed(self, log: Log) -> int:
        return self.logs.high_watermarks.get((log.topic, log.partition), 0)

    def drop(self, topic: str, index: int) -> None:
        """Stop serving the partition and delete its log; does nothing if neither exists."""
        hosted = self.by_topic.get(topic, {})
        partition = hosted.pop(index, None)
        if not hosted:
            self.by_topic.pop(topic, None)
        if partition is not None:
            partition.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.on_leadership_change(partition)
        if (topic, index) in self.logs.logs:
            self.logs.delete(topic, index)

    def lose(self, lost: Iterable[Log]) -> list[Partition]:
        """Answer all requests that wait for these logs with KAFKA_STORAGE_ERROR.

        Returns the partitions of the logs.  They stay hosted, and later requests get that error.
        """
        partitions = []
        for log in lost:
            partition = self.get(log.topic, log.partition)
            if partition is not None:
                partition.release_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                partitions.append(partition)
        return partitions

    def configure(self, topics: Iterable[str]) -> None:
        """Apply the current configs of these topics to their logs."""
        for name in topics:
            hosted = self.by_topic.get(name)
            if hosted:
                config = self._log_config(name)
                for partition in hosted.values():
                    partition.log.update_config(config)
