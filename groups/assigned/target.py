"""Target assignments as values, and when a new one may be computed.

Assignments have the iteration order of Apache Kafka's maps and sets (kwire.groups.assignment).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from kwire.cluster.metadata.image import ClusterImage
from kwire.groups.assigned.group import T
from kwire.groups.assignment import Assignment, as_read
from kwire.groups.java import HashTable, string_hash, uuid_hash


@dataclass(frozen=True, slots=True)
class MemberTarget(Generic[T]):
    """One member's target and the epoch that it was computed for."""

    epoch: int
    assignment: T


def may_be_computed(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a new target assignment may be computed now.

    `interval_ms` is `consumer.assignment.interval.ms` or its like of the other kinds: members that
    join at about the same time share one computation.
    """
    return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms


# -- partitions of topics: consumer and share groups


class TopicPartitions(Protocol):
    """A topic in the record of an assignment."""

    topic_id: bytes
    partitions: list[int]


class TargetValue(Protocol):
    """The value of the record of one member's target assignment."""

    @property
    def topic_partitions(self) -> Sequence[TopicPartitions]: ...


def assignment_of(topics: Iterable[TopicPartitions]) -> Assignment:
    """The assignment that a record lists."""
    return as_read((topic.topic_id, topic.partitions) for topic in topics)


def read_partitions(value: TargetValue) -> Assignment:
    """The target in the record of one member's target assignment."""
    return assignment_of(value.topic_partitions)


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
