"""What an assignor is told of a group, and what it answers."""

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
"""Topic id -> partitions, both in the order in which Java's maps and sets would walk them."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member; `assignment` is what the last target assignment gave it.

    `topic_ids` are the keys, in the order in which Java's set of them would be walked.
    """

    member_id: str
    instance_id: str | None
    topic_ids: Mapping[bytes, None]
    assignment: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group; all its topics exist: `partition_counts` has each of them.

    `homogeneous`: all members are subscribed to the same topics.
    """

    members: Sequence[MemberSpec]
    homogeneous: bool
    partition_counts: Mapping[bytes, int]


def in_java_order(members: Iterable[MemberSpec]) -> list[MemberSpec]:
    """As the HashMap by member id is walked in which Apache Kafka gives them to its assignors."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in HashTable(string_hash, by_id)]


def as_read(topics: Iterable[tuple[bytes, Sequence[int]]]) -> Assignment:
    """The assignment that Apache Kafka makes of its record, which lists `topics`."""
    partitions = dict(topics)
    return {
        topic_id: tuple(HashTable.of_collection(integer_hash, partitions[topic_id]))
        for topic_id in HashTable(uuid_hash, partitions)
    }


class Draft:
    """A member's assignment while it is changed: what Java calls a deep copy of its maps.

    The map of topics is made for as many as there were, the sets as Java copies any.
    """

    __slots__ = ("_order", "_topics")

    def __init__(self, assignment: Assignment) -> None:
        self._order = HashTable(uuid_hash, assignment, table_size(len(assignment)))
        self._topics: dict[bytes, HashTable[int]] = {
            topic_id: HashTable.of_collection(integer_hash, partitions)
            for topic_id, partitions in assignment.items()
        }

    def add(self, topic_id: bytes, partition: int, expected: int | None = None) -> None:
        """`expected`: how many partitions of the topic a new set is made for."""
        partitions = self._topics.get(topic_id)
        if partitions is None:
            size = TABLE_SIZE if expected is None else table_size(int(expected / LOAD + 1))
            partitions = self._topics[topic_id] = HashTable(integer_hash, size=size)
        self._order.add(topic_id, in_front=True)
        partitions.add(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        partitions = self._topics[topic_id]
        partitions.discard(partition)
        if not len(partitions):
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        del self._topics[topic_id]
        self._order.discard(topic_id)

    def done(self) -> Assignment:
        return {topic_id: tuple(self._topics[topic_id]) for topic_id in self._order}
