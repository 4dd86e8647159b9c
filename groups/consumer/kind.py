"""The consumer kind of groups (KIP-848): its requests, records and timers."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import DescribedGroup
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import JoinGroupRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigning import AssigningKind
from kwire.groups.classic.decision import ClassicCaller
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.consumer import classic_members, describing, patterns, removal
from kwire.groups.consumer.classic_join import HostedClassicJoin
from kwire.groups.consumer.decision import ConsumerCaller, ConsumerDecision, ConsumerRefusal
from kwire.groups.consumer.following import ConsumerGroupRecord, follow
from kwire.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kwire.groups.consumer.heartbeat import ConsumerHeartbeat
from kwire.groups.consumer.leaving import leave
from kwire.groups.consumer.member import JOIN_EPOCH, ConsumerMemberState
from kwire.groups.consumer.records import RECORDS, ConsumerGroupEpoch
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer, PatternTimer
from kwire.groups.consumer.upgrade import upgrade
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.timers import GroupTimer, RebalanceTimer, SessionTimer


class ConsumerKind(AssigningKind[ConsumerGroup]):
    """Implements `kwire.groups.kind.GroupKind` and `kwire.groups.classic.kind.ClassicHost`."""

    group_class = ConsumerGroup
    type_name = CONSUMER_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS

    def _decision(self, group: ConsumerGroup, now_ms: int) -> ConsumerDecision:
        return ConsumerDecision(group, self._limits, self._surroundings, self._hashes, now_ms)

    # -- membership

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide ConsumerGroupHeartbeat; `new_member_id` is used if the request has none."""
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(request, ticket, now_ms)
        group = self.find(request.group_id)
        if group is not None:
            decision = self._decision(group, now_ms)
            return ConsumerHeartbeat(decision, request, caller, new_member_id).decide(ticket)
        return self._first_heartbeat(request, caller, new_member_id, ticket, now_ms)

    def _first_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """A heartbeat for a group that does not exist, or is a classic group.

        A join creates the group, or converts the classic group.
        """
        group_id = request.group_id
        other = self._groups.get(group_id)
        if other is None and request.member_epoch != JOIN_EPOCH:
            return _not_found(ticket, f"Consumer group {group_id} not found.")
        joins = request.member_epoch == JOIN_EPOCH
        if other is not None and not (joins and isinstance(other, ClassicGroup)):
            return _not_found(ticket, f"Group {group_id} is not a consumer group.")
        decision = self._decision(ConsumerGroup(group_id), now_ms)
        if isinstance(other, ClassicGroup):
            refusal = upgrade(decision, other)
            if refusal is not None:
                return GroupEffects.reply(ticket, refusal.response())
        return ConsumerHeartbeat(decision, request, caller, new_member_id).decide(ticket)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        group = self.find(request.group_id)
        if group is not None:
            return leave(self._decision(group, now_ms), request, ticket)
        what = "is not a consumer group" if request.group_id in self._groups else "not found"
        return _not_found(ticket, f"Group {request.group_id} {what}.")

    def describe(self, group_id: str) -> DescribedGroup:
        group = self.find(group_id)
        if group is None:
            return describing.not_found(group_id, exists=group_id in self._groups)
        default = self._surroundings.settings(group_id).default_assignor
        return describing.described(group, self._surroundings.image, default)

    # -- members of the classic protocol (kwire.groups.classic.kind.ClassicHost)

    def classic_join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: ClassicCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        decision = self._decision(group, now_ms)
        return HostedClassicJoin(decision, request, caller, new_member_id).decide(ticket)

    def classic_sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.sync(self._decision(group, now_ms), request, ticket)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.heartbeat(self._decision(group, now_ms), request, ticket)

    def classic_leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.leave(self._decision(group, now_ms), request, ticket)

    # -- the interface of a kind

    def apply(self, record: ConsumerGroupRecord) -> None:
        group_id = record.key.group_id
        group = self.find(group_id)
        if group is None:
            if record.value is None:
                return
            # This replaces a simple group that offsets earlier in the log have created.
            group = self._groups[group_id] = ConsumerGroup(group_id)
        if isinstance(record, ConsumerGroupEpoch) and record.value is None:
            del self._groups[group_id]
            self._hashes.forget(group_id)
        else:
            follow(group, record)

    def tombstones(self, group: ConsumerGroup) -> list[MachineRecord]:
        return removal.tombstones(group)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> GroupEffects:
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member)
            if member.classic is None and member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
                decision.expect_revocation(member)
        return decision.effects

    def timer_fired(self, group: ConsumerGroup, timer: GroupTimer, now_ms: int) -> GroupEffects:
        decision = self._decision(group, now_ms)
        match timer:
            case SessionTimer(member_id=member_id):
                return _fence(decision, member_id, "was not heard of in time")
            case RebalanceTimer(member_id=member_id, member_epoch=epoch):
                member = group.members.get(member_id)
                if member is None or member.epoch != epoch:
                    return GroupEffects()
                return _fence(decision, member_id, f"did not leave epoch {epoch} in time")
            case ClassicJoinTimer(member_id=member_id):
                return _fence(decision, member_id, "did not join again in time")
            case ClassicSyncTimer(member_id=member_id):
                return _fence(decision, member_id, "did not sync in time")
            case PatternTimer(may_describe=may_describe):
                return patterns.resolve(decision, may_describe)
        return GroupEffects()  # a timer of another kind's group that this group has replaced


def _not_found(ticket: Ticket, message: str) -> GroupEffects:
    return GroupEffects.reply(
        ticket, ConsumerRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message).response()
    )


def _fence(decision: ConsumerDecision, member_id: str, why: str) -> GroupEffects:
    """Remove a member.  If the append fails, the session timer repeats this after RETRY_MS."""
    member = decision.group.members.get(member_id)
    if member is not None:
        decision.note(f"member {member_id} {why} and is out")
        removal.remove(decision, [member])
        timer = SessionTimer(decision.group.group_id, member_id)
        again = (timer.key, timer, RETRY_MS)
        decision.effects.refused = lambda _: GroupEffects(timers=[again])
    return decision.effects


RETRY_MS = 1_000
"""Pause before a member is removed again whose tombstones could not be written."""
