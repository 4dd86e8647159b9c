"""A classic group: its members, its generation and the progress of its rebalance.

Durable and soft state
- Durable state is in the group's GroupMetadata record: generation, protocol, leader, the time of
  the last transition and, for each member, its ids, client, timeouts, the metadata of the chosen
  protocol and its assignment.  The record is written when a group is created, when the leader's
  assignment arrives, when a static member is replaced without a rebalance, and when the last member
  leaves.  `from_record` restores a group: STABLE if it has members, else EMPTY.
- Soft state is everything else: the two rebalancing states, member ids that were given out but not
  used yet, parked requests, the protocols that were not chosen.  After a failover the new
  coordinator starts from the record; the errors of their heartbeats make the members rejoin.

The current group object is never changed.  A decision changes a `fork` of it, which replaces the
group when the decision is carried out.  Members are immutable, so forks share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.messages.coordinator.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.codecs.primitives import DecodeError
from kwire.coordinators.contract.effects import Ticket
from kwire.groups.classic.records import GroupMetadata
from kwire.groups.classic.state import VALID_PREVIOUS_STATES, ClassicState
from kwire.groups.group import Group
from kwire.groups.java import hash_bucket

CLASSIC_TYPE = "classic"
CONSUMER_PROTOCOL_TYPE = "consumer"
NO_TIMESTAMP = -1
_SUBSCRIPTION_VERSION_SIZE_BYTES = 2

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of each protocol (assignor) that a member supports, by preference."""


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol.  Raises KeyError if it has none."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(f"member {self.member_id} does not support protocol {protocol_name!r}")

    def vote(self, candidates: Iterable[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    """See the module.  Dicts keep the order in which members joined."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.DEAD
    state_timestamp_ms: int = NO_TIMESTAMP
    protocol_type: str | None = None
    """None for a simple group, which only commits offsets."""
    protocol_name: str | None = None
    generation_id: int = 0
    leader_id: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Group instance id -> member id."""
    supporters: dict[str, int] = field(default_factory=dict)
    """Protocol name -> how many members support it."""
    newcomers: set[str] = field(default_factory=set)
    """Members whose first join has no response yet: they cannot send heartbeats."""
    pending_joins: dict[str, None] = field(default_factory=dict)
    """Member ids given out with MEMBER_ID_REQUIRED that have not joined yet."""
    pending_syncs: dict[str, None] = field(default_factory=dict)
    """Members of this generation that have not synced yet."""
    awaiting_join: dict[str, Ticket] = field(default_factory=dict)
    awaiting_sync: dict[str, Ticket] = field(default_factory=dict)
    subscribed_topics: frozenset[str] | None = None
    """None if unknown: another protocol type, or metadata that cannot be parsed."""
    new_member_added: bool = False
    """Whether a member joined during the delay of the first rebalance, which extends the delay."""

    # -- records

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group that a record holds: stable, or empty if it has no members.

        Other states are not durable: after a load, members that were rebalancing rejoin.
        """
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            state_timestamp_ms=value.current_state_timestamp,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            generation_id=value.generation,
            leader_id=value.leader,
        )
        for member in value.members:
            group.add(_member_from_record(value, member))
        group.subscribed_topics = group.subscribed_topics_now()
        return group

    def to_record(self, assignments: dict[str, bytes]) -> GroupMetadata:
        """The record of the group with these assignments (member id -> bytes)."""
        return GroupMetadata(
            GroupMetadataKey(group=self.group_id),
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation_id,
                protocol=self.protocol_name,
                leader=self.leader_id,
                current_state_timestamp=self.state_timestamp_ms,
                members=[
                    _member_to_record(member, self.protocol_name, assignments.get(member_id, b""))
                    for member_id, member in self.members.items()
                ],
            ),
        )

    def fork(self) -> ClassicGroup:
        """A copy that can be changed without changing the original."""
        fork = copy(self)
        fork.members = self.members.copy()
        fork.static_members = self.static_members.copy()
        fork.supporters = self.supporters.copy()
        fork.newcomers = self.newcomers.copy()
        fork.pending_joins = self.pending_joins.copy()
        fork.pending_syncs = self.pending_syncs.copy()
        fork.awaiting_join = self.awaiting_join.copy()
        fork.awaiting_sync = self.awaiting_sync.copy()
        return fork

    # -- the interface of any group (kwire.groups.group)

    @property
    def type_name(self) -> str:
        return CLASSIC_TYPE

    @property
    def state_name(self) -> str:
        return self.state.value

    def install(self, groups: dict[str, Group]) -> None:
        """Replace the group in `groups` that this fork was made from."""
        groups[self.group_id] = self

    def listed(self) -> ListedGroup:
        """Return the group's entry in the ListGroups response."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type=CLASSIC_TYPE,
        )

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Return the error of an OffsetCommit, NONE if it is allowed.

        The order of the checks decides which of several errors the client sees: Kafka's order.
        """
        generation_id = request.generation_id_or_member_epoch
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is ClassicState.EMPTY:
            return ErrorCode.NONE  # commits without a generation need an empty group
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> ErrorCode:
        """Check TxnOffsetCommit.  A producer that names no member may commit (KIP-447)."""
        generation_id = request.generation_id_or_member_epoch
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is ClassicState.EMPTY:
            return ErrorCode.NONE
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        error = self.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        same = generation_id == self.generation_id
        return ErrorCode.NONE if same else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Allow every OffsetFetch: members of the classic protocol do not name themselves."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Return the error of an OffsetDelete, NONE if it is allowed.

        Only for the consumer protocol type it is known which topics a group with members reads.
        """
        if self.state is ClassicState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state is not ClassicState.EMPTY and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Return the error of a DeleteGroups, NONE for a group without members."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        empty = self.state is ClassicState.EMPTY
        return ErrorCode.NONE if empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def offsets_may_expire(self) -> bool:
        if self.protocol_type is None or self.state is ClassicState.EMPTY:
            return True
        return self.state is ClassicState.STABLE and self.subscribed_topics is not None

    @property
    def has_description(self) -> bool:
        return False

    def retention_start_ms(self, commit_timestamp_ms: int) -> int:
        """Return when the retention of an offset starts, in ms since the epoch.

        That is when the last member left, or in a simple group when the offset was committed.
        """
        empty = self.protocol_type is not None and self.state is ClassicState.EMPTY
        if empty and self.state_timestamp_ms != NO_TIMESTAMP:
            return self.state_timestamp_ms
        return commit_timestamp_ms

    @property
    def is_deleted_without_offsets(self) -> bool:
        return self.state is ClassicState.EMPTY

    # -- state

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[ClassicState.PREPARING_REBALANCE]

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def in_first_rebalance(self) -> bool:
        """Whether the group waits for more members before its first generation."""
        return (
            self.state is ClassicState.PREPARING_REBALANCE
            and self.previous_state is ClassicState.EMPTY
        )

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """Change the state, and note when and from which state."""
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state} -> {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def start_next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the present members; without any the group is EMPTY."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.subscribed_topics_now()
        self.transition_to(
            ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms
        )
        self.pending_syncs.clear()

    # -- members

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == len(self.awaiting_join) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in ms."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE for a member of the group, else the error.

        A static member must also be the one that has the group instance id.
        """
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count_support(member, 1)
        self.pending_joins.pop(member.member_id, None)

    def update(self, member: ClassicMember) -> None:
        """Replace the member that has the same id."""
        self._count_support(self.members[member.member_id], -1)
        self.members[member.member_id] = member
        self._count_support(member, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id, if it is one."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_support(member, -1)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.newcomers.discard(member_id)
        self.awaiting_join.pop(member_id, None)
        self.awaiting_sync.pop(member_id, None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def rename(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member that came back its new member id; return the member.

        Its parked requests stay with the old id.
        """
        member = replace(self.members.pop(old_member_id), member_id=new_member_id)
        self.members[new_member_id] = member
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_member_id
        self.pending_syncs.pop(old_member_id, None)
        return member

    def elect_joined_leader(self) -> bool:
        """Choose another leader if the present one has not joined.

        Returns False if no member has joined.
        """
        if self.leader_id not in self.awaiting_join:
            joined = next((m for m in self.members if m in self.awaiting_join), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    # -- protocols

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether all members would still have a protocol in common with these protocols."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return self.protocol_type == protocol_type and any(
            self.supporters.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes of those that all members support.

        Of equal ones the first in Java's HashMap wins, as in Apache Kafka.
        """
        everyone = len(self.members)
        candidates = {name for name, count in self.supporters.items() if count == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return min(votes, key=lambda name: (-votes[name], hash_bucket(name)))

    def subscribed_topics_now(self) -> frozenset[str] | None:
        """Return the topics that the members subscribe to; None if that is unknown.

        It is unknown for other protocol types than `consumer`, before a protocol is chosen, and if
        the metadata of a member cannot be decoded.
        """
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                metadata = member.metadata(self.protocol_name)
                # Every version of the subscription begins with version 0's fields.
                subscription = ConsumerProtocolSubscription.decode(
                    metadata, 0, _SUBSCRIPTION_VERSION_SIZE_BYTES
                )
                topics.update(subscription.topics)
        except DecodeError:
            return None
        return frozenset(topics)

    @property
    def may_become_classic(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group subscribes to a topic; True if members' metadata is unreadable."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _count_support(self, member: ClassicMember, change: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self.supporters[name] = self.supporters.get(name, 0) + change


def _member_from_record(value: GroupMetadataValue, member: MemberMetadata) -> ClassicMember:
    """Return a member as its record holds it, with only the protocol of the generation.

    The rebalance timeout is -1 in records of Kafka before 0.10.1; the session timeout stands for
    it.
    """
    timeout_ms = member.rebalance_timeout
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.session_timeout if timeout_ms == -1 else timeout_ms,
        session_timeout_ms=member.session_timeout,
        protocols=((value.protocol or "", member.subscription),),
        assignment=member.assignment,
    )


def _member_to_record(
    member: ClassicMember, protocol_name: str | None, assignment: bytes
) -> MemberMetadata:
    """Return a member's part of the group's record, with its metadata for the chosen protocol."""
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )
