"""A consumer group: the state that its records hold.

- `epoch` rises with each change of the members, of their subscriptions, and of the subscribed
  topics themselves (`metadata_hash`).
- `target` is the target assignment, computed for `target_epoch`, which follows the epoch.
- Each member moves to its target on its own (kwire.groups.consumer.reconciliation).

All of it is durable.  A decision changes nothing here; only `kwire.groups.consumer.kind` does, when
it applies records.  After a load, sessions and rebalance timeouts start again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum

from kwire.codecs.messages.list_groups import ListedGroup
from kwire.groups.assignment import Assignment
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.member_epochs import CommitPartition, MemberEpochs

CONSUMER_TYPE = "consumer"
CONSUMER_PROTOCOL_TYPE = "consumer"

FIRST_EPOCH = 1
"""Epoch of a group before its first subscription; 0 is the epoch of a member that joins."""


class ConsumerState(Enum):
    """Values are the names that ListGroups and ConsumerGroupDescribe print."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target assignment for the group's epoch is not computed yet."""
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedPattern:
    """The topics that matched a regular expression, in which image and at what time (ms)."""

    topic_names: frozenset[str]
    image_version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup(MemberEpochs[ConsumerMember]):
    """See the module.  Dicts keep the order in which members joined."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Group instance id -> member id."""
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """Time of the last computation; 0 if never, or if a broker did not write the time."""
    target: dict[str, Assignment] = field(default_factory=dict)
    patterns: dict[str, ResolvedPattern] = field(default_factory=dict)
    pattern_members: dict[str, int] = field(default_factory=dict)
    """Pattern -> number of members with it, so that a heartbeat need not look at all members."""
    has_partition_metadata: bool = False
    """Whether a PartitionMetadata record of a broker before 4.1 still exists."""
    owners: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """(topic id, partition) -> id of the member that holds it."""
    _topic_names: frozenset[str] | None = field(default=None, compare=False)

    # -- changes by records

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace the one with the same id."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None:
            self._release(before)
        if member.pattern:
            self.pattern_members[member.pattern] = self.pattern_members.get(member.pattern, 0) + 1
        for place in member.held:
            self.owners[place] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._topic_names = None

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self._topic_names = None

    def _release(self, member: ConsumerMember) -> None:
        if member.pattern:
            self.pattern_members[member.pattern] -= 1
            if not self.pattern_members[member.pattern]:
                del self.pattern_members[member.pattern]
        for place in member.held:
            if self.owners.get(place) == member.member_id:
                del self.owners[place]

    def put_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        """Store the topics of a pattern; None removes the pattern: no member has it any more."""
        if resolved is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = resolved
        self._topic_names = None

    # -- members

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

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

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The target of a member, or of the static member with the same instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, {})

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) in self.owners

    def subscribers_of(self, pattern: str) -> int:
        return self.pattern_members.get(pattern, 0)

    # -- subscriptions

    @property
    def topic_names(self) -> frozenset[str]:
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

    # -- the interface of any group (kwire.groups.group)

    @property
    def type_name(self) -> str:
        return CONSUMER_TYPE

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        reconciled = all(m.reconciled_to(self.target_epoch) for m in self.members.values())
        return ConsumerState.STABLE if reconciled else ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=self.state_name,
            group_type=CONSUMER_TYPE,
        )

    def assigned_since_epoch(
        self, member: ConsumerMember, partition: CommitPartition
    ) -> int | None:
        return member.assignment_epoch(partition.topic_id, partition.partition)

    def uses_member_epochs(self, member: ConsumerMember) -> bool:
        return member.classic is None

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_names
