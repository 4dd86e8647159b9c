"""The state of the controller: the metadata image, live brokers, and indexes over both.

The indexes follow from the image and the live brokers.  Each change updates them, so an event costs
time in proportion to the partitions that it concerns, however large the cluster is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import Online, unassigned_partition
from kwire.cluster.metadata.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
)
from kwire.settings.live import LiveSettings

TopicPartition = tuple[str, int]
"""A partition: (topic name, partition index)."""

UNASSIGNED = unassigned_partition(())


@dataclass(slots=True)
class DeletionProgress:
    """The progress of a topic's deletion.  A replica is (broker id, partition index)."""

    requested: set[tuple[int, int]] = field(default_factory=set)
    """Replicas whose broker was sent StopReplica and has not answered."""
    deleted: set[tuple[int, int]] = field(default_factory=set)
    halted: bool = False
    """Whether the deletion waits: a replica cannot be deleted, or a reassignment is in progress."""


class ControllerState:
    """The state that the modules of this package share; `ClusterController` owns it."""

    def __init__(self, settings: LiveSettings, image: ClusterImage) -> None:
        """`image` is the cluster's metadata at the start of this controller's term.

        The members and the indexes start empty.
        """
        self.settings = settings
        self.image = image
        self.members: dict[int, int] = {}
        """The live brokers and their epochs.  A broker that restarted is added only after the
        changes that follow from its departure are committed."""
        self.shutting_down: set[int] = set()
        """Members that have sent ControlledShutdown."""
        self.offline: dict[int, set[TopicPartition]] = {}
        """Replicas in failed log directories, by broker."""
        self.deletions: dict[str, DeletionProgress] = {}
        # indexes
        self.hosted: dict[int, set[TopicPartition]] = {}
        """The partitions of which each broker has a replica."""
        self.leaderless: set[TopicPartition] = set()
        """Partitions without a leader, or whose leader is unreachable."""
        self.reassigned: set[TopicPartition] = set()
        """Partitions that are being reassigned."""
        self.preferred: dict[int, int] = {}
        """How many partitions prefer each broker as leader."""
        self.displaced: dict[int, set[TopicPartition]] = {}
        """Partitions that prefer each broker as leader but have another leader, or none."""

    # -- look-ups

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        return partition_of(self.image, topic_partition)

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deletions

    def is_deleted(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        """Whether a broker has deleted its replica of a topic being deleted, or was asked to."""
        deletion, replica = self.deletions.get(topic_partition[0]), (broker_id, topic_partition[1])
        return deletion is not None and (
            replica in deletion.deleted or replica in deletion.requested
        )

    def online(self, topic_partition: TopicPartition) -> Online:
        """Return a test whether a replica may lead or be in sync.

        Its broker must be live and not shutting down, and its log directory must work.
        """
        members, shutting_down = self.members, self.shutting_down
        return lambda broker_id: (
            broker_id in members
            and broker_id not in shutting_down
            and topic_partition not in self.offline.get(broker_id, ())
        )

    def reachable(self, topic_partition: TopicPartition) -> Online:
        """Whether a replica is live and its log available, even if its broker shuts down."""
        members = self.members
        return lambda broker_id: (
            broker_id in members and topic_partition not in self.offline.get(broker_id, ())
        )

    def allows_unclean_election(self, topic: str) -> bool:
        """The topic's `unclean.leader.election.enable`, or else the broker's."""
        given = self.image.configs_of(TOPIC_RESOURCE, topic).get("unclean.leader.election.enable")
        if given is None:
            return self.settings.config.unclean_leader_election_enable
        return given.strip().lower() == "true"

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        """The partitions of a topic; none if it does not exist."""
        topic_image = self.image.topics.get(topic)
        for index in range(0 if topic_image is None else len(topic_image.partitions)):
            yield topic, index

    # -- changes

    def alteration(
        self, image: ClusterImage, topic_partition: TopicPartition, after: PartitionImage | None
    ) -> AlterPartition | None:
        """Return the change of a partition from its state in `image` to `after`.

        None if `after` is None or nothing changes.  The new state has the image's controller epoch,
        which fences earlier controllers.
        """
        name, index = topic_partition
        topic = image.topics.get(name)
        before = partition_of(image, topic_partition)
        if topic is None or before is None or after is None or after is before:
            return None
        after = replace(after, controller_epoch=image.controller_epoch)
        return AlterPartition(name, topic.id, index, before.partition_epoch, after)

    def follow(
        self, image: ClusterImage, delta: ClusterDelta
    ) -> dict[TopicPartition, PartitionImage]:
        """Replace the image and update the indexes.

        Returns the former states of the partitions that changed; that of a new one is UNASSIGNED.
        """
        before, self.image = self.image, image
        changed: dict[TopicPartition, PartitionImage] = {}
        for name in delta.deleted:
            old = before.topics.get(name)
            for index, state in enumerate(() if old is None else old.partitions):
                self._remove_from_indexes((name, index), state)
            self.deletions.pop(name, None)
        for name, indexes in delta.partitions.items():
            old_topic = None if name in delta.deleted else before.topics.get(name)
            for index in indexes:
                topic_partition = (name, index)
                old_state = UNASSIGNED
                if old_topic is not None and index < len(old_topic.partitions):
                    old_state = old_topic.partitions[index]
                    self._remove_from_indexes(topic_partition, old_state)
                self.add_to_indexes(topic_partition, delta.topics[name].partitions[index])
                changed[topic_partition] = old_state
        return changed

    def add_to_indexes(self, topic_partition: TopicPartition, state: PartitionImage) -> None:
        """Adds a partition in `state` to all indexes."""
        for broker_id in state.replicas:
            self.hosted.setdefault(broker_id, set()).add(topic_partition)
        if state.adding or state.removing:
            self.reassigned.add(topic_partition)
        first = state.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1
        if state.leader != first:
            self.displaced.setdefault(first, set()).add(topic_partition)
        self.update_leaderless(topic_partition, state)

    def update_leaderless(self, topic_partition: TopicPartition, state: PartitionImage) -> None:
        """Add the partition to `leaderless`, or remove it, by whether its leader is reachable."""
        if state.leader != NO_LEADER and self.reachable(topic_partition)(state.leader):
            self.leaderless.discard(topic_partition)
        else:
            self.leaderless.add(topic_partition)

    def _remove_from_indexes(self, topic_partition: TopicPartition, state: PartitionImage) -> None:
        """Removes a partition, which was in `state`, from all indexes."""
        for broker_id in state.replicas:
            self.hosted[broker_id].discard(topic_partition)
        self.leaderless.discard(topic_partition)
        self.reassigned.discard(topic_partition)
        first = state.replicas[0]
        self.preferred[first] -= 1
        self.displaced.get(first, set()).discard(topic_partition)


def partition_of(image: ClusterImage, topic_partition: TopicPartition) -> PartitionImage | None:
    """The partition's state in `image`; None if the topic or the partition does not exist."""
    topic = image.topics.get(topic_partition[0])
    if topic is None or not 0 <= topic_partition[1] < len(topic.partitions):
        return None
    return topic.partitions[topic_partition[1]]


def needs_no_leader(
    image: ClusterImage, topic_partition: TopicPartition, partition: PartitionImage
) -> bool:
    """Whether a partition needs no leader because its topic is being deleted.

    It still needs one while it is reassigned: the deletion waits for the end of that.
    """
    return topic_partition[0] in image.deleting and not (partition.adding or partition.removing)
