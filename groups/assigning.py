"""What groups have in common whose coordinator assigns: those of KIP-848 and share groups.

Their epoch grows with what they are subscribed to; a target assignment follows it, which says for
each member what it is to have, as Apache Kafka's maps and sets would order it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from kwire.cluster.metadata.image import ClusterImage
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.consumer.assignors.spec import Assignment, as_read
from kwire.groups.decision import GroupDecision
from kwire.groups.effects import Effects
from kwire.groups.java import HashTable, string_hash, uuid_hash
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.metadata_hash import MetadataHashes
from kwire.groups.surroundings import Surroundings


class AssignedGroup(Protocol):
    """A group, as far as decisions of both kinds look at it."""

    @property
    def group_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


G = TypeVar("G", bound=AssignedGroup)


class AssigningDecision(GroupDecision, ABC, Generic[G]):
    """The group as it is, and what would follow; nothing has happened yet."""

    __slots__ = ("group", "hashes", "surroundings")

    def __init__(
        self,
        group: G,
        limits: GroupLimits,
        surroundings: Surroundings,
        hashes: MetadataHashes,
        now_ms: int,
    ) -> None:
        super().__init__(group.group_id, limits, now_ms, Effects())
        self.group = group
        self.surroundings = surroundings
        self.hashes = hashes

    def append(self, *records: MachineRecord) -> None:
        self.effects.records += records

    # -- the epoch

    def metadata_hash(self, topic_names: frozenset[str]) -> int:
        return self.hashes.of_group(self.group_id, topic_names, self.surroundings.image)

    def next_epoch(self, metadata_hash: int) -> int:
        """Begin the group's next epoch, in which the target is computed anew."""
        epoch = self.group.epoch + 1
        self.append(self.epoch_record(epoch, metadata_hash))
        self.note(f"epoch {epoch} begins")
        return epoch

    @abstractmethod
    def epoch_record(self, epoch: int, metadata_hash: int) -> MachineRecord:
        """The record of the group's kind that says its epoch."""


# -- the kind


K = TypeVar("K")


class AssigningKind(Generic[K]):
    """Such a `kwire.groups.kind.Kind` in part.  `groups` are the machine's, of all kinds."""

    group_class: type[K]

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        self._groups = groups
        self._limits = limits
        self._surroundings = surroundings
        self._hashes = MetadataHashes()

    def find(self, group_id: str) -> K | None:
        """None also where the group is of another kind."""
        group = self._groups.get(group_id)
        return group if isinstance(group, self.group_class) else None

    def unloaded(self, group: K, now_ms: int) -> Effects:
        """Nobody waits here."""
        return Effects()

    def committed(self, group: K, member_id: str, effects: Effects) -> None:
        """Only heartbeats keep a member."""


# -- the target assignment


class TopicPartitions(Protocol):
    """A topic in a record of an assignment."""

    topic_id: bytes
    partitions: list[int]


def assignment_of(topics: Iterable[TopicPartitions]) -> Assignment:
    """What a record lists."""
    return as_read((topic.topic_id, topic.partitions) for topic in topics)


class TargetValue(Protocol):
    """The value of a record of one member's target."""

    @property
    def topic_partitions(self) -> Sequence[TopicPartitions]: ...


def follow_target(target: dict[str, Assignment], member_id: str, value: TargetValue | None) -> None:
    """Change who is to have what as a record says it."""
    if value is None:
        target.pop(member_id, None)
    else:
        target[member_id] = assignment_of(value.topic_partitions)


def may_be_computed(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """`consumer.assignment.interval.ms`, `share.assignment.interval.ms`: many who join at once
    share an assignment."""
    return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms


def topic_ids(names: Collection[str], image: ClusterImage) -> dict[bytes, None]:
    """Of those that exist, as the keys, in the order in which Java's set would be walked."""
    walked = HashTable.of_collection(string_hash, sorted(names))
    topics = (image.topics.get(name) for name in walked)
    ids = (topic.id for topic in topics if topic is not None)
    return dict.fromkeys(HashTable.of_collection(uuid_hash, ids))


def is_same(assignment: Assignment, other: Assignment) -> bool:
    """Whatever the order."""
    if assignment.keys() != other.keys():
        return False
    return all(set(other[topic_id]) == set(these) for topic_id, these in assignment.items())
