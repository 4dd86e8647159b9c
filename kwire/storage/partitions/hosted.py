"""The partitions that this broker has replicas of, and the logs that they lie on.

One class opens, finds, loses and drops partitions, for a broker alone and for a member of a
cluster.  Who decides which partitions these are differs: a broker alone follows its own metadata
(`kwire.cluster.membership.alone`), a member does what the controller's LeaderAndIsr and StopReplica
say (`kwire.cluster.replication.manager`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import Log, LogConfig, LogError, LogManager
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.partition import Partition

PartitionKey: TypeAlias = tuple[str, int]
"""The topic's name and the partition's number."""


def _nobody(partition: Partition) -> None:
    """No coordinator is there to hear of leaders."""


class HostedPartitions:
    """The partitions of one broker.

    by_topic               the partitions by topic name and number
    absent                 partitions whose logs may lie in a log directory that is offline: they
                           are not created anew, for an empty log in their place would be taken for
                           the partition, and its records for lost
    on_leadership_change   called when this broker becomes or stays the leader in a new epoch, or
                           stops leading; coordinators follow their partitions by it
    """

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        flusher: Flusher,
        log_config: Callable[[str], LogConfig],
    ) -> None:
        """`log_config` gives what the logs of a topic (by name) work by."""
        self.node_id: Final = node_id
        self.logs: Final = logs
        self.by_topic: dict[str, dict[int, Partition]] = {}
        self.absent: set[PartitionKey] = set()
        self.on_leadership_change: Callable[[Partition], None] = _nobody
        self._flusher = flusher
        self._log_config = log_config

    def __iter__(self) -> Iterator[Partition]:
        """All partitions, as they are now: the loop may open and drop some."""
        return iter([each for hosted in self.by_topic.values() for each in hosted.values()])

    def get(self, topic: str, index: int) -> Partition | None:
        hosted = self.by_topic.get(topic)
        return None if hosted is None else hosted.get(index)

    def led(self, topic: str, index: int) -> Partition:
        """The partition that this broker leads.

        Raises LogError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        partition = self.get(topic, index)
        if partition is None:
            raise LogError(self.absent_error(topic, index))
        partition.check_leads()
        partition.log.check_online()
        return partition

    def absent_error(self, topic: str, index: int) -> ErrorCode:
        """What a client is told of a partition that is not hosted here.

        NOT_LEADER_OR_FOLLOWER where its disk was away when the broker started: it has no leader.
        """
        if (topic, index) in self.absent:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def high_watermark_of(self, log: Log) -> int:
        """Up to which offset `log` is committed, for its checkpoint and for retention.

        Where no partition is open on the log yet, the last checkpoint says so.
        """
        partition = self.get(log.topic, log.partition)
        if partition is not None:
            return partition.high_watermark
        known = self.logs.high_watermarks.get((log.topic, log.partition), 0)
        return min(known, log.log_end_offset)

    def open(
        self, topic: str, topic_id: bytes, index: int, *, has_followers: bool = False
    ) -> Partition:
        """Open the partition on its log, which is created if there is none.

        A log without a topic id gets this one.  With followers the high watermark begins at the
        last checkpoint; without, all of the log is committed.  Raises LogError.
        """
        log = self.logs.logs.get((topic, index))
        if log is None:
            log = self.logs.create(topic, topic_id, index, self._log_config(topic))
        elif log.topic_id == ZERO_UUID != topic_id:
            log.adopt_topic_id(topic_id)
        high_watermark = self._checkpointed(log) if has_followers else None
        partition = Partition(log, self.node_id, self._flusher, high_watermark)
        self.by_topic.setdefault(topic, {})[index] = partition
        return partition

    def _checkpointed(self, log: Log) -> int:
        known = self.logs.high_watermarks.get((log.topic, log.partition), 0)
        return max(known, log.log_start_offset)

    def drop(self, topic: str, index: int) -> None:
        """Stop serving the partition, if it is here, and delete its log."""
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
        """Answer everybody who waits on these logs with KAFKA_STORAGE_ERROR.

        Gives the partitions that lay on them.  They stay hosted: requests get that error.
        """
        partitions = []
        for log in lost:
            partition = self.get(log.topic, log.partition)
            if partition is not None:
                partition.release_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                partitions.append(partition)
        return partitions

    def configure(self, topics: Iterable[str]) -> None:
        """Have the logs of these topics work by their settings as they are now."""
        for name in topics:
            hosted = self.by_topic.get(name)
            if hosted:
                config = self._log_config(name)
                for partition in hosted.values():
                    partition.log.update_config(config)
