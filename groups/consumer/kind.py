"""The consumer kind of groups (KIP-848): its requests, its records, its timers."""

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
from kwire.groups.classic.decision import Caller
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.consumer import classic_members, describing, patterns, removal
from kwire.groups.consumer.classic_join import ClassicJoin
from kwire.groups.consumer.decision import ConsumerCaller, Decision, Refusal
from kwire.groups.consumer.following import ConsumerGroupRecord, follow
from kwire.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kwire.groups.consumer.heartbeat import Heartbeat
from kwire.groups.consumer.leaving import leave
from kwire.groups.consumer.member import JOIN_EPOCH, MemberState
from kwire.groups.consumer.records import RECORDS, Epoch
from kwire.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    PatternTimer,
    RebalanceTimer,
)
from kwire.groups.consumer.upgrade import upgrade
from kwire.groups.effects import Effects, Ticket
from kwire.groups.timers import GroupTimer, SessionTimer


class Consumer(AssigningKind[ConsumerGroup]):
    """A `kwire.groups.kind.Kind`."""

    group_class = ConsumerGroup
    type_name = CONSUMER_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS

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
        group = self.find(request.group_id)
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
        joins = request.member_epoch == JOIN_EPOCH
        if other is not None and not (joins and isinstance(other, ClassicGroup)):
            return _not_found(ticket, f"Group {group_id} is not a consumer group.")
        decision = self._decision(ConsumerGroup(group_id), now_ms)
        if isinstance(other, ClassicGroup):
            refusal = upgrade(decision, other)
            if refusal is not None:
                return Effects.reply(ticket, refusal.response())
        return Heartbeat(decision, request, caller, new_member_id).decide(ticket)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
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

    # -- members of the classic protocol (kwire.groups.classic.kind.Host)

    def classic_join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        decision = self._decision(group, now_ms)
        return ClassicJoin(decision, request, caller, new_member_id).decide(ticket)

    def classic_sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        return classic_members.sync(self._decision(group, now_ms), request, ticket)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        return classic_members.heartbeat(self._decision(group, now_ms), request, ticket)

    def classic_leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        return classic_members.leave(self._decision(group, now_ms), request, ticket)

    # -- the kind

    def apply(self, record: ConsumerGroupRecord) -> None:
        group_id = record.key.group_id
        group = self.find(group_id)
        if group is None:
            if record.value is None:
                return
            # Also in the place of a simple group, which offsets that stand before it have begun.
            group = self._groups[group_id] = ConsumerGroup(group_id)
        if isinstance(record, Epoch) and record.value is None:
            del self._groups[group_id]
            self._hashes.forget(group_id)
        else:
            follow(group, record)

    def tombstones(self, group: ConsumerGroup) -> list[MachineRecord]:
        return removal.tombstones(group)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> Effects:
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                decision.expect_revocation(member)
        return decision.effects

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
            case ClassicJoinTimer(member_id=member_id):
                return _fence(decision, member_id, "did not join again in time")
            case ClassicSyncTimer(member_id=member_id):
                return _fence(decision, member_id, "did not sync in time")
            case PatternTimer(may_describe=may_describe):
                return patterns.resolve(decision, may_describe)
        return Effects()  # of a group of another kind, which this one has followed


def _not_found(ticket: Ticket, message: str) -> Effects:
    return Effects.reply(ticket, Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message).response())


def _fence(decision: Decision, member_id: str, why: str) -> Effects:
    member = decision.group.members.get(member_id)
    if member is not None:
        decision.note(f"member {member_id} {why} and is out")
        removal.remove(decision, [member])
        timer = SessionTimer(decision.group.group_id, member_id)
        again = (timer.key, timer, RETRY_MS)
        decision.effects.refused = lambda _: Effects(timers=[again])
    return decision.effects


RETRY_MS = 1_000
"""After which a member is fenced again whose records could not be written."""
