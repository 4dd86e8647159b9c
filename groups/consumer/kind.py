"""The consumer kind of groups (KIP-848): its requests, its records, its timers."""

from __future__ import annotations

from typing import assert_never

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import DescribedGroup
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.coordinator.consumer_group_metadata import ConsumerGroupMetadataKey
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kwire.coordinator.machine import MachineRecord
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import group_tombstone
from kwire.groups.consumer import describing, patterns
from kwire.groups.consumer.assignors.spec import as_read
from kwire.groups.consumer.decision import (
    ConsumerCaller,
    Decision,
    Refusal,
    partition_metadata_tombstone,
    pattern_tombstone,
)
from kwire.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup, ResolvedPattern
from kwire.groups.consumer.heartbeat import Heartbeat
from kwire.groups.consumer.leaving import leave
from kwire.groups.consumer.member import JOIN_EPOCH, ConsumerMember, MemberState
from kwire.groups.consumer.metadata_hash import MetadataHashes
from kwire.groups.consumer.records import (
    RECORDS,
    CurrentAssignment,
    Epoch,
    MemberMetadata,
    PartitionMetadata,
    RegularExpression,
    TargetAssignment,
    TargetEpoch,
)
from kwire.groups.consumer.timers import PatternTimer, RebalanceTimer, SessionTimer
from kwire.groups.effects import Effects, Ticket
from kwire.groups.kind import Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import GroupTimer

ConsumerGroupRecord = (
    Epoch
    | PartitionMetadata
    | MemberMetadata
    | TargetEpoch
    | TargetAssignment
    | CurrentAssignment
    | RegularExpression
)

NO_TARGET_EPOCH = -1


class Consumer:
    """A `kwire.groups.kind.Kind`; `groups` are the machine's, of all kinds."""

    type_name = CONSUMER_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS

    def __init__(self, groups: Groups, limits: GroupLimits, surroundings: Surroundings) -> None:
        self._groups = groups
        self._limits = limits
        self._surroundings = surroundings
        self._hashes = MetadataHashes()

    def _find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _decision(self, group: ConsumerGroup, now_ms: int) -> Decision:
        return Decision(group, self._limits, self._surroundings, self._hashes, now_ms)

    # -- membership

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        """`new_member_id` is used where the member has none yet."""
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, ticket, now_ms)
        group = self._find(request.group_id)
        if group is not None:
            decision = self._decision(group, now_ms)
            return Heartbeat(decision, request, caller, new_member_id).decide(ticket)
        return self._first_heartbeat(request, caller, new_member_id, ticket, now_ms)

    def _first_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        """The group begins, also in the place of one of another kind that is empty."""
        group_id = request.group_id
        other = self._groups.get(group_id)
        if other is None and request.member_epoch != JOIN_EPOCH:
            return _not_found(ticket, f"Consumer group {group_id} not found.")
        replaceable = isinstance(other, ClassicGroup) and other.check_delete() is ErrorCode.NONE
        if other is not None and not (replaceable and request.member_epoch == JOIN_EPOCH):
            return _not_found(ticket, f"Group {group_id} is not a consumer group.")
        decision = self._decision(ConsumerGroup(group_id), now_ms)
        if other is not None:
            decision.append(group_tombstone(group_id))
        return Heartbeat(decision, request, caller, new_member_id).decide(ticket)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        group = self._find(request.group_id)
        if group is not None:
            return leave(self._decision(group, now_ms), request, ticket)
        what = "is not a consumer group" if request.group_id in self._groups else "not found"
        return _not_found(ticket, f"Group {request.group_id} {what}.")

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._find(group_id)
        if group is None:
            return describing.not_found(group_id, exists=group_id in self._groups)
        default = self._surroundings.settings(group_id).default_assignor
        return describing.described(group, self._surroundings.image, default)

    # -- the kind

    def apply(self, record: ConsumerGroupRecord) -> None:
        group_id = record.key.group_id
        group = self._find(group_id)
        if group is None:
            if record.value is None:
                return
            # Also in the place of a simple group, which offsets that stand before it have begun.
            group = self._groups[group_id] = ConsumerGroup(group_id)
        self._apply_to(group, record)

    def _apply_to(self, group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
        match record:
            case Epoch():
                self._apply_epoch(group, record)
            case PartitionMetadata():
                group.has_partition_metadata = record.value is not None
            case MemberMetadata():
                _apply_metadata(group, record)
            case TargetEpoch(value=value):
                group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
                group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case TargetAssignment():
                _apply_target(group, record)
            case CurrentAssignment():
                _apply_assignment(group, record)
            case RegularExpression():
                _apply_pattern(group, record)
            case _:
                assert_never(record)

    def _apply_epoch(self, group: ConsumerGroup, record: Epoch) -> None:
        if record.value is None:
            del self._groups[group.group_id]
            self._hashes.forget(group.group_id)
        else:
            group.epoch = record.value.epoch
            group.metadata_hash = record.value.metadata_hash

    def tombstones(self, group: ConsumerGroup) -> list[MachineRecord]:
        """Of a group without members."""
        group_id = group.group_id
        return [
            TargetEpoch(ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
            *(pattern_tombstone(group_id, pattern) for pattern in group.patterns),
            partition_metadata_tombstone(group_id),
            Epoch(ConsumerGroupMetadataKey(group_id), None),
        ]

    def loaded(self, group: ConsumerGroup, now_ms: int) -> Effects:
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member.member_id)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                decision.expect_revocation(member)
        return decision.effects

    def unloaded(self, group: ConsumerGroup, now_ms: int) -> Effects:
        """Nobody waits here."""
        return Effects()

    def due(self, group: ConsumerGroup, timer: GroupTimer, now_ms: int) -> Effects:
        decision = self._decision(group, now_ms)
        match timer:
            case SessionTimer(member_id=member_id):
                return _fence(decision, member_id, "was not heard of in time")
            case RebalanceTimer(member_id=member_id, member_epoch=epoch):
                member = group.members.get(member_id)
                if member is None or member.epoch != epoch:
                    return Effects()
                return _fence(decision, member_id, f"did not leave epoch {epoch} in time")
            case PatternTimer(may_describe=may_describe):
                return patterns.resolve(decision, may_describe)
        return Effects()  # of a group of another kind, which this one has followed

    def committed(self, group: ConsumerGroup, member_id: str, effects: Effects) -> None:
        """Only heartbeats keep a member."""


def _not_found(ticket: Ticket, message: str) -> Effects:
    return Effects.reply(ticket, Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message).response())


def _fence(decision: Decision, member_id: str, why: str) -> Effects:
    member = decision.group.members.get(member_id)
    if member is not None:
        decision.note(f"member {member_id} {why} and is out")
        decision.fence([member])
        timer = SessionTimer(decision.group.group_id, member_id)
        again = (timer.key, timer, RETRY_MS)
        decision.effects.refused = lambda _: Effects(timers=[again])
    return decision.effects


RETRY_MS = 1_000
"""After which a member is fenced again whose records could not be written."""


def _apply_metadata(group: ConsumerGroup, record: MemberMetadata) -> None:
    member_id = record.key.member_id
    if record.value is None:
        group.remove(member_id)
    else:
        member = group.members.get(member_id) or ConsumerMember(member_id)
        group.put(member.with_metadata(record.value))


def _apply_target(group: ConsumerGroup, record: TargetAssignment) -> None:
    if record.value is None:
        group.target.pop(record.key.member_id, None)
    else:
        topics = record.value.topic_partitions
        listed = ((topic.topic_id, topic.partitions) for topic in topics)
        group.target[record.key.member_id] = as_read(listed)


def _apply_assignment(group: ConsumerGroup, record: CurrentAssignment) -> None:
    member_id = record.key.member_id
    member = group.members.get(member_id)
    if record.value is not None:
        group.put((member or ConsumerMember(member_id)).with_assignment(record.value))
    elif member is not None:
        group.put(member.without_assignment())


def _apply_pattern(group: ConsumerGroup, record: RegularExpression) -> None:
    resolved, value = None, record.value
    if value is not None:
        resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
    group.put_pattern(record.key.regular_expression, resolved)
