"""What the controller knows: the image, and what no image holds.

All of the indexes follow from the image and the live brokers.  They are kept up to date by what
changed, so that an event costs what it concerns, in a cluster of any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import Online, unassigned
from kwire.cluster.metadata.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
)
from kwire.settings.live import LiveSettings

Place = tuple[str, int]
"""A partition: topic and index."""

NOWHERE = unassigned(())


@dataclass(slots=True)
class Deletion:
    """How far the deletion of a topic has come; (broker id, partition) are its replicas."""

    asked: set[tuple[int, int]] = field(default_factory=set)
    """Replicas whose broker was told, and has not answered."""
    done: set[tuple[int, int]] = field(default_factory=set)
    halted: bool = False
    """A replica cannot be deleted, or a partition is reassigned: wait until that may be over."""


class ControllerState:
    """Owned by `ClusterController`; its jobs read it and change what is theirs."""

    def __init__(self, settings: LiveSettings, image: ClusterImage) -> None:
        self.settings = settings
        self.image = image
        self.members: dict[int, int] = {}
        """Epochs of the brokers that count as alive; a broker that came back does so only when its
        going has been dealt with."""
        self.shutting_down: set[int] = set()
        """Of those the ones that have said that they are about to go."""
        self.offline: dict[int, set[Place]] = {}
        """Replicas on failed disks, by broker."""
        self.deletions: dict[str, Deletion] = {}
        # indexes
        self.hosted: dict[int, set[Place]] = {}
        """Partitions by the brokers that have a replica."""
        self.leaderless: set[Place] = set()
        """Partitions whose leader is not alive, or that have none."""
        self.reassigned: set[Place] = set()
        self.preferred: dict[int, int] = {}
        """How many partitions have this broker as their preferred leader."""
        self.displaced: dict[int, set[Place]] = {}
        """Those of them that another one leads."""

    # -- look-ups

    def partition(self, place: Place) -> PartitionImage | None:
        return partition_of(self.image, place)

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deletions

    def is_deleted(self, broker_id: int, place: Place) -> bool:
        """Whether a broker has deleted its replica, of a topic that goes, or was told to."""
        deletion, replica = self.deletions.get(place[0]), (broker_id, place[1])
        return deletion is not None and (replica in deletion.done or replica in deletion.asked)

    def online(self, place: Place) -> Online:
        """Who may lead the partition or be in sync: alive, not about to go, and with its log."""
        members, shutting_down = self.members, self.shutting_down
        return lambda broker_id: (
            broker_id in members
            and broker_id not in shutting_down
            and place not in self.offline.get(broker_id, ())
        )

    def reachable(self, place: Place) -> Online:
        """Who is alive and has the log of the partition, even if about to go."""
        members = self.members
        return lambda broker_id: (
            broker_id in members and place not in self.offline.get(broker_id, ())
        )

    def unclean(self, topic: str) -> bool:
        """Whether a replica that is not in sync may lead, where no other can."""
        given = self.image.configs_of(TOPIC_RESOURCE, topic).get("unclean.leader.election.enable")
        if given is None:
            return self.settings.config.unclean_leader_election_enable
        return given.strip().lower() == "true"

    def places(self, topic: str) -> Iterator[Place]:
        known = self.image.topics.get(topic)
        for index in range(0 if known is None else len(known.partitions)):
            yield topic, index

    # -- changes

    def alteration(
        self, image: ClusterImage, place: Place, after: PartitionImage | None
    ) -> AlterPartition | None:
        """The change that gives a partition its next state, in the name of this controller."""
        name, index = place
        topic = image.topics.get(name)
        before = partition_of(image, place)
        if topic is None or before is None or after is None or after is before:
            return None
        after = replace(after, controller_epoch=image.controller_epoch)
        return AlterPartition(name, topic.id, index, before.partition_epoch, after)

    def follow(self, image: ClusterImage, delta: ClusterDelta) -> dict[Place, PartitionImage]:
        """Take over the next image; returns what the changed partitions were before.

        A new one was NOWHERE.
        """
        before, self.image = self.image, image
        changed: dict[Place, PartitionImage] = {}
        for name in delta.deleted:
            old = before.topics.get(name)
            for index, state in enumerate(() if old is None else old.partitions):
                self._forget((name, index), state)
            self.deletions.pop(name, None)
        for name, indexes in delta.partitions.items():
            known = None if name in delta.deleted else before.topics.get(name)
            for index in indexes:
                place = (name, index)
                old_state = NOWHERE
                if known is not None and index < len(known.partitions):
                    old_state = known.partitions[index]
                    self._forget(place, old_state)
                self.index(place, delta.topics[name].partitions[index])
                changed[place] = old_state
        return changed

    def index(self, place: Place, state: PartitionImage) -> None:
        for broker_id in state.replicas:
            self.hosted.setdefault(broker_id, set()).add(place)
        if state.adding or state.removing:
            self.reassigned.add(place)
        first = state.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1
        if state.leader != first:
            self.displaced.setdefault(first, set()).add(place)
        self.judge(place, state)

    def judge(self, place: Place, state: PartitionImage) -> None:
        """See whether somebody leads a partition."""
        if state.leader != NO_LEADER and self.reachable(place)(state.leader):
            self.leaderless.discard(place)
        else:
            self.leaderless.add(place)

    def _forget(self, place: Place, state: PartitionImage) -> None:
        for broker_id in state.replicas:
            self.hosted[broker_id].discard(place)
        self.leaderless.discard(place)
        self.reassigned.discard(place)
        first = state.replicas[0]
        self.preferred[first] -= 1
        self.displaced.get(first, set()).discard(place)


def partition_of(image: ClusterImage, place: Place) -> PartitionImage | None:
    """None where there is no such topic, or partition of it."""
    topic = image.topics.get(place[0])
    if topic is None or not 0 <= place[1] < len(topic.partitions):
        return None
    return topic.partitions[place[1]]


def is_left_alone(image: ClusterImage, place: Place, known: PartitionImage) -> bool:
    """Whether a partition needs no leader any longer, for its topic goes.

    One that is reassigned needs it: that ends first.
    """
    return place[0] in image.deleting and not (known.adding or known.removing)
