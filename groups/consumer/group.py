"""A consumer group: the state that its records hold.

Besides what kwire.groups.assigned.group has, it has static members, the owner of each partition,
and the topics that match its members' patterns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from kwire.groups.assigned.committing import CommitPartition
from kwire.groups.assigned.static_members import StaticGroup
from kwire.groups.assigned.target import read_partitions
from kwire.groups.assignment import NOTHING, Assignment
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import PartitionMetadata, RegularExpression

CONSUMER_TYPE = "consumer"
CONSUMER_PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class ResolvedPattern:
    """The topics that matched a regular expression, in which image and at what time (ms)."""

    topic_names: frozenset[str]
    image_version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup(StaticGroup[ConsumerMember, Assignment]):
    """See the module."""

    patterns: dict[str, ResolvedPattern] = field(default_factory=dict)
    pattern_members: dict[str, int] = field(default_factory=dict)
    """Pattern -> number of members with it, so that a heartbeat need not look at all members."""
    has_partition_metadata: bool = False
    """Whether a PartitionMetadata record of a broker before 4.1 still exists."""
    owners: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """(topic id, partition) -> id of the member that holds it."""
    _topic_names: frozenset[str] | None = field(default=None, compare=False)

    type_name: ClassVar[str] = CONSUMER_TYPE
    member_class = ConsumerMember
    NO_TARGET = NOTHING

    # -- changes by records

    def index(self, member: ConsumerMember) -> None:
        """Note the member's pattern, its partitions and its instance id."""
        if member.pattern:
            self.pattern_members[member.pattern] = self.pattern_members.get(member.pattern, 0) + 1
        for place in member.held:
            self.owners[place] = member.member_id
        StaticGroup.index(self, member)
        self._topic_names = None

    def unindex(self, member: ConsumerMember) -> None:
        """Undo `index`; a partition stays with another owner."""
        StaticGroup.unindex(self, member)
        if member.pattern:
            self.pattern_members[member.pattern] -= 1
            if not self.pattern_members[member.pattern]:
                del self.pattern_members[member.pattern]
        for place in member.held:
            if self.owners.get(place) == member.member_id:
                del self.owners[place]
        self._topic_names = None

    read_target = staticmethod(read_partitions)

    def follow_own(self, record: PartitionMetadata | RegularExpression) -> None:
        """Apply a record of the old topic metadata, or of the topics that match a pattern."""
        match record:
            case PartitionMetadata():
                self.has_partition_metadata = record.value is not None
            case RegularExpression(key=key, value=value):
                resolved = None
                if value is not None:
                    names = frozenset(value.topics)
                    resolved = ResolvedPattern(names, value.version, value.timestamp)
                self.put_pattern(key.regular_expression, resolved)

    def put_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        """Store the topics of a pattern; None removes the pattern: no member has it any more."""
        if resolved is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = resolved
        self._topic_names = None

    # -- members

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether all members of the classic protocol support one of these protocols."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            return False
        supported = [
            {protocol.name for protocol in member.classic.supported_protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in member_names for member_names in supported) for name in names)

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) in self.owners

    def subscribers_of(self, pattern: str) -> int:
        return self.pattern_members.get(pattern, 0)

    # -- subscriptions

    @property
    def topic_names(self) -> frozenset[str]:
        """The topics that the members subscribe to, by name or pattern; cached."""
        if self._topic_names is None:
            self._topic_names = self.topic_names_of(self.members.values())
        return self._topic_names

    def topic_names_of(
        self, members: Iterable[ConsumerMember], without: Collection[str] = ()
    ) -> frozenset[str]:
        """Topics that members subscribe to by name or pattern, except patterns in `without`."""
        names: set[str] = set()
        patterns: set[str] = set()
        for member in members:
            names |= member.topic_names
            if member.pattern:
                patterns.add(member.pattern)
        for pattern in patterns.difference(without):
            resolved = self.patterns.get(pattern)
            if resolved is not None:
                names |= resolved.topic_names
        return frozenset(names)

    def topic_names_by(self, member: ConsumerMember) -> frozenset[str]:
        """Topics that one member subscribes to, by name and pattern."""
        resolved = self.patterns.get(member.pattern) if member.pattern else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topic_names

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_names

    # -- commits

    def assigned_since_epoch(
        self, member: ConsumerMember, partition: CommitPartition
    ) -> int | None:
        return member.assignment_epoch(partition.topic_id, partition.partition)

    def uses_member_epochs(self, member: ConsumerMember) -> bool:
        return member.classic is None
