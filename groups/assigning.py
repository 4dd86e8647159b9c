"""Shared by groups whose coordinator assigns: consumer, share and streams groups.

Such a group has an epoch, which rises when its members, their subscriptions or the subscribed
topics change.  A target assignment is computed for an epoch: it says what each member shall have,
in the iteration order of Apache Kafka's maps and sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from kwire.cluster.metadata.image import ClusterImage
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assignment import Assignment, as_read
from kwire.groups.decision import GroupDecision
from kwire.groups.effects import GroupEffects
from kwire.groups.java import HashTable, string_hash, uuid_hash
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.metadata_hash import MetadataHashes
from kwire.groups.surroundings import Surroundings


class AssignedGroup(Protocol):
    """The part of a group that all these decisions use."""

    @property
    def group_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


G = TypeVar("G", bound=AssignedGroup)


class AssigningDecision(GroupDecision, ABC, Generic[G]):
    """A decision about such a group: the current group, and the effects collected so far."""

    __slots__ = ("group", "hashes", "surroundings")

    def __init__(
        self,
        group: G,
        limits: GroupLimits,
        surroundings: Surroundings,
        hashes: MetadataHashes,
        now_ms: int,
    ) -> None:
        super().__init__(group.group_id, limits, now_ms, GroupEffects())
        self.group = group
        self.surroundings = surroundings
        self.hashes = hashes

    def append(self, *records: MachineRecord) -> None:
        self.effects.records += records

    # -- the epoch

    def metadata_hash(self, topic_names: frozenset[str]) -> int:
        return self.hashes.of_group(self.group_id, topic_names, self.surroundings.image)

    def next_epoch(self, metadata_hash: int) -> int:
        """Begin the group's next epoch, which needs a new target assignment.  Returns it."""
        epoch = self.group.epoch + 1
        self.append(self.epoch_record(epoch, metadata_hash))
        self.note(f"epoch {epoch} begins")
        return epoch

    @abstractmethod
    def epoch_record(self, epoch: int, metadata_hash: int) -> MachineRecord:
        """The record that stores the group's epoch, in the group's kind."""


# -- the kind


K = TypeVar("K")


class AssigningKind(Generic[K]):
    """Part of a `kwire.groups.kind.GroupKind`.  `groups` are the machine's groups of all kinds."""

    group_class: type[K]

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        self._groups = groups
        self._limits = limits
        self._surroundings = surroundings
        self._hashes = MetadataHashes()

    def find(self, group_id: str) -> K | None:
        """The group, or None if it does not exist or is of another kind."""
        group = self._groups.get(group_id)
        return group if isinstance(group, self.group_class) else None

    def unloaded(self, group: K, now_ms: int) -> GroupEffects:
        """No request waits in such a group."""
        return GroupEffects()

    def member_committed(self, group: K, member_id: str, effects: GroupEffects) -> None:
        """A commit does not extend a session here: only heartbeats do."""


# -- the target assignment


class TopicPartitions(Protocol):
    """A topic in the record of an assignment."""

    topic_id: bytes
    partitions: list[int]


def assignment_of(topics: Iterable[TopicPartitions]) -> Assignment:
    """The assignment that a record lists."""
    return as_read((topic.topic_id, topic.partitions) for topic in topics)


class TargetValue(Protocol):
    """The value of the record of one member's target assignment."""

    @property
    def topic_partitions(self) -> Sequence[TopicPartitions]: ...


def follow_target(target: dict[str, Assignment], member_id: str, value: TargetValue | None) -> None:
    """Apply a record of one member's target assignment; no value removes the member."""
    if value is None:
        target.pop(member_id, None)
    else:
        target[member_id] = assignment_of(value.topic_partitions)


def may_be_computed(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a new target assignment may be computed now.

    `interval_ms` is `consumer.assignment.interval.ms` or its like of the other kinds: members that
    join at about the same time share one computation.
    """
    return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms


def topic_ids(names: Collection[str], image: ClusterImage) -> dict[bytes, None]:
    """Ids of the topics that exist, as keys in the iteration order of Java's set."""
    ordered_names = HashTable.of_collection(string_hash, sorted(names))
    topics = (image.topics.get(name) for name in ordered_names)
    ids = (topic.id for topic in topics if topic is not None)
    return dict.fromkeys(HashTable.of_collection(uuid_hash, ids))


def is_same(assignment: Assignment, other: Assignment) -> bool:
    """Whether two assignments are equal, in any order."""
    if assignment.keys() != other.keys():
        return False
    return all(set(other[topic_id]) == set(these) for topic_id, these in assignment.items())
