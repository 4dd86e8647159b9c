"""MetadataRoles: leads and follows by the metadata records of KRaft controllers.

No controller sends requests to brokers there.  Each broker reads its roles off the metadata log, as
Apache Kafka 4.4 does.  The changed partitions of a delta, for the broker `me`:

    topic deleted, or created anew          its partitions are deleted here
    me is not a replica, and was            the partition is deleted
    me is a replica, its log is offline     this broker stops leading it; a new log is not created
    later leader epoch                      lead, or follow the leader, or wait while there is none
    same leader epoch                       take over replicas, ISR and partition epoch
    earlier partition epoch                 nothing: the answer to AlterPartition has arrived before

A replica without a log gets one in the directory that the metadata say, or else in any.  But its
log may be in a directory that failed: if directories failed, and the metadata have the replica in
none of those that are online, no log is created.  An empty one would pass for a replica that has
all records.  When the metadata say another directory than the one that has the log, the controllers
are told.

A replica for which the disk has no room (kwire.log.directory.shortage) is reported as lost, so that
the controllers choose other leaders, and opened once there is room.  If it has no leader then, its
directory is reported twice: the controllers of 4.4.0 elect none when a replica gets a directory,
because they still see it in the one before, and do when they get the same report again.

The first delta is from an empty image.  Logs that the image does not place here are then strays:
they are kept under another name, as in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.image import LOST, MIGRATING, NO_LEADER, UNASSIGNED
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
    from kwire.cluster.replication.manager import ReplicaManager
    from kwire.log import Log
    from kwire.log.directory.log_dir import LogDir
    from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.replication")

_ANYWHERE: Final = (MIGRATING, UNASSIGNED, LOST)
"""Directory ids that do not say where a new log goes."""

Key = tuple[str, int]


class MetadataRoles:
    """See the module.  No method awaits."""

    def __init__(
        self, manager: ReplicaManager, assign: Callable[[bytes, int, bytes], None]
    ) -> None:
        """`assign(topic_id, index, directory_id)` tells the controllers where a replica is.

        The log directories have their identities, and their logs are loaded.  Raises OSError,
        LogDirError.
        """
        self._manager = manager
        self._assign = assign
        self._hosted = manager.hosted
        self._logs = manager.hosted.logs
        self._me = manager.hosted.node_id
        self._directory_ids = self._logs.directory_ids()
        self._image: ClusterImage | None = None
        self._unopened: set[Key] = set()
        """Replicas that could not be opened or led, for lack of room."""
        self._lost: set[Key] = set()
        """Replicas that were reported as lost for that reason, and not yet as found."""
        self._is_leaving = False
        self._hosted.on_moved = self._moved

    def apply(self, before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        """Leads, follows, stops and deletes partitions as `image` says.

        `delta` is the difference between `before` and `image`.  The broker already answers from
        `image`.  The first `image` must have the present registration of this broker: the
        controllers have then fenced the one before, and nobody takes this broker for a leader that
        it was before its restart.
        """
        is_first, self._image = self._image is None, image
        if is_first:
            self._set_aside_strays(image)
        self._manager.quotas.topics_deleted(delta.deleted)
        for name in delta.deleted:
            self._delete_topic(name, before.topics.get(name))
        for name, indexes in delta.partitions.items():
            for index in indexes:
                self._take_role(delta.topics[name], index)
        self._manager.end_idle()

    def open_missing(self) -> None:
        """Tries again to open and lead the replicas for which the disk had no room."""
        if not self._unopened or self._image is None:
            return
        for name, index in sorted(self._unopened):
            self._take_role(self._image.topics[name], index)
        self._manager.end_idle()

    def begin_shutdown(self) -> None:
        """Stops following, from now on, each partition that other brokers go on with.

        A controlled shutdown has begun: what this broker would still fetch of partitions where it
        is not in sync any more, or that have no leader, only delays its end.
        """
        self._is_leaving = True

    def logs_lost(self, lost: Iterable[Log]) -> None:
        """The log directory of these logs failed: stops fetching them.

        The controllers learn from this broker's heartbeats which directory failed.  A replica that
        they have in another directory, or in none, is reported as lost.
        """
        lost = list(lost)
        self._manager.logs_lost(lost)
        for each in lost:
            topic = None if self._image is None else self._image.topic_by_id(each.topic_id)
            if topic is None or each.partition >= len(topic.partitions):
                continue
            known = self._directory_of(topic.partitions[each.partition])
            if known not in (self._directory_ids.get(each.dir.parent), LOST):
                self._assign(topic.id, each.partition, LOST)

    # -- one partition

    def _take_role(self, topic: TopicImage, index: int) -> None:
        """Leads, follows or deletes one partition, as `topic` says."""
        key, state = (topic.name, index), topic.partitions[index]
        may_create = key in self._unopened
        self._unopened.discard(key)
        self._hosted.absent.discard(key)
        if self._me not in state.replicas:
            self._lost.discard(key)
            self._manager.delete(*key)
            return
        partition = self._hosted.get(*key)
        try:
            if partition is None:
                partition = self._open(topic, index, state, may_create=may_create)
            if partition is not None:
                self._become(partition, state)
        except LogError as error:
            log.error("Cannot lead or follow %s-%d: %s", *key, error)
            self._note_failed(key, topic, error.error)
            return
        if partition is not None and not partition.log.offline:
            self._report_directory(partition, state)

    def _open(
        self, topic: TopicImage, index: int, state: PartitionImage, *, may_create: bool
    ) -> Partition | None:
        """Opens a partition on its log or on a new one; None if its log may be offline.

        `may_create`: no directory can have its log.  Raises LogError.
        """
        key = topic.name, index
        present = self._logs.logs.get(key)
        if present is not None and present.topic_id != topic.id:
            self._logs.set_aside(key)
            present = None
        directory = None
        if present is None:
            directory_id = self._directory_of(state)
            directory = self._online(directory_id)
            may_create |= directory is not None or directory_id == UNASSIGNED
            if self._logs.offline_dirs and not may_create:
                log.error(
                    "The log of %s-%d may be in a log directory that failed. The replica stays"
                    " offline until the directory is back, or has been removed from log.dirs.",
                    *key,
                )
                self._hosted.absent.add(key)
                return None
        return self._manager.open(topic.name, topic.id, index, is_new=True, directory=directory)

    def _become(self, partition: Partition, state: PartitionImage) -> None:
        """Makes this broker leader or follower of an open partition.  Raises LogError."""
        if partition.log.offline:
            if partition.is_leader and state.leader != self._me:
                partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)
                self._hosted.on_leadership_change(partition)
            return
        if state.partition_epoch < partition.partition_epoch:
            return
        if state.leader_epoch > partition.leader_epoch or state.leader != partition.leader:
            self._manager.follow(partition, state)
        else:
            self._manager.update(partition, state)
        if self._is_leaving and (state.leader == NO_LEADER or self._me not in state.isr):
            self._manager.stop(partition.topic, partition.index)
            partition.following = False

    def _note_failed(self, key: Key, topic: TopicImage, error: ErrorCode) -> None:
        """Notes that a partition could not be opened, led or followed.

        A storage error of a directory that stays online is a shortage, which may pass.
        """
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self._logs.online_dirs:
            self._unopened.add(key)
            if self._hosted.get(*key) is None:
                self._hosted.absent.add(key)
            self._lost.add(key)
            if self._directory_of(topic.partitions[key[1]]) != LOST:
                self._assign(topic.id, key[1], LOST)

    # -- log directories

    def _directory_of(self, state: PartitionImage) -> bytes:
        """The directory id that the metadata have for the replica of this broker."""
        if self._me not in state.replicas or not state.directories:
            return MIGRATING
        return state.directories[state.replicas.index(self._me)]

    def _online(self, directory_id: bytes) -> LogDir | None:
        """Return the online directory with that id, or None."""
        if directory_id in _ANYWHERE:
            return None
        for directory in self._logs.online_dirs:
            if self._directory_ids.get(directory.path) == directory_id:
                return directory
        return None

    def _report_directory(self, partition: Partition, state: PartitionImage) -> None:
        """Tells the controllers which directory has a replica, if they do not know.

        Also if they know, but have not elected a leader after the replica was lost.
        """
        actual = self._directory_ids.get(partition.log.dir.parent)
        if actual is None:
            return
        is_known = actual == self._directory_of(state)
        was_lost = (partition.topic, partition.index) in self._lost
        if not is_known or (was_lost and state.leader == NO_LEADER):
            self._assign(partition.topic_id, partition.index, actual)
        if is_known:
            self._lost.discard((partition.topic, partition.index))

    def _moved(self, partition: Partition) -> None:
        """Reports the directory to which AlterReplicaLogDirs has moved a replica."""
        topic = None if self._image is None else self._image.topic_by_id(partition.topic_id)
        if topic is not None and partition.index < len(topic.partitions):
            self._report_directory(partition, topic.partitions[partition.index])

    # -- what the metadata no longer have

    def _delete_topic(self, name: str, topic: TopicImage | None) -> None:
        """Deletes all partitions of a topic here."""
        for index in range(0 if topic is None else len(topic.partitions)):
            self._unopened.discard((name, index))
            self._lost.discard((name, index))
            self._hosted.absent.discard((name, index))
            self._manager.delete(name, index)

    def _set_aside_strays(self, image: ClusterImage) -> None:
        """Keeps logs under another name that the metadata do not place on this broker."""
        for (name, index), each in list(self._logs.logs.items()):
            topic = image.topics.get(name)
            if topic is None or topic.id != each.topic_id:
                why = "the metadata have no topic with its name and topic id"
            elif index >= len(topic.partitions) or self._me not in topic.partitions[index].replicas:
                why = "the metadata have no such replica on this broker"
            else:
                continue
            self._logs.set_aside((name, index), why)
