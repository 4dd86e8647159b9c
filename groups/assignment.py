"""Assignments as values, and a member as assignors see it.

The order of topics and partitions is that of Apache Kafka's Java maps and sets, because clients can
see it (kwire.groups.java).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kwire.groups.java import (
    LOAD,
    TABLE_SIZE,
    HashTable,
    integer_hash,
    string_hash,
    table_size,
    uuid_hash,
)

Assignment = Mapping[bytes, tuple[int, ...]]
"""Topic id -> partitions, both in the iteration order of Java's maps and sets."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member of a group whose partitions are assigned.

    `topic_ids` has the topics that the member subscribes to as its keys, in the iteration order of
    Java's set of them.  `assignment` is the member's part of the last target assignment.
    """

    member_id: str
    instance_id: str | None
    topic_ids: Mapping[bytes, None]
    assignment: Assignment = field(default_factory=dict)


def in_java_order(members: Iterable[MemberSpec]) -> list[MemberSpec]:
    """The members in the order in which Apache Kafka passes them to its assignors.

    That is the iteration order of a HashMap by member id.
    """
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in HashTable(string_hash, by_id)]


def as_read(topics: Iterable[tuple[bytes, Sequence[int]]]) -> Assignment:
    """The assignment that Apache Kafka builds when it reads a record that lists `topics`."""
    partitions = dict(topics)
    return {
        topic_id: tuple(HashTable.of_collection(integer_hash, partitions[topic_id]))
        for topic_id in HashTable(uuid_hash, partitions)
    }


class Draft:
    """A member's assignment while an assignor changes it: a deep copy of Java's maps.

    Its iteration order is that of the Java copy: the map of topics is sized for the topics of the
    original, each set of partitions as Java sizes a copied set.
    """

    __slots__ = ("_order", "_topics")

    def __init__(self, assignment: Assignment) -> None:
        self._order = HashTable(uuid_hash, assignment, table_size(len(assignment)))
        self._topics: dict[bytes, HashTable[int]] = {
            topic_id: HashTable.of_collection(integer_hash, partitions)
            for topic_id, partitions in assignment.items()
        }

    def add(self, topic_id: bytes, partition: int, expected: int | None = None) -> None:
        """Add a partition.  A new set of the topic is sized for `expected` partitions."""
        partitions = self._topics.get(topic_id)
        if partitions is None:
            size = TABLE_SIZE if expected is None else table_size(int(expected / LOAD + 1))
            partitions = self._topics[topic_id] = HashTable(integer_hash, size=size)
        self._order.add(topic_id, in_front=True)
        partitions.add(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Remove a partition; a topic without partitions is removed, too."""
        partitions = self._topics[topic_id]
        partitions.discard(partition)
        if not len(partitions):
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        del self._topics[topic_id]
        self._order.discard(topic_id)

    def done(self) -> Assignment:
        return {topic_id: tuple(self._topics[topic_id]) for topic_id in self._order}
