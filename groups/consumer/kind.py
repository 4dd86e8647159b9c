"""The consumer kind of groups (KIP-848): its requests, records and timers."""

from __future__ import annotations

from typing import Any

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.messages.consumer_group_describe import DescribedGroup
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import JoinGroupRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.coordinators.contract.effects import TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.kind import AssignedKind
from kwire.groups.assigned.member import LEAVE_FOR_A_WHILE_EPOCH
from kwire.groups.assigned.static_members import static_member
from kwire.groups.classic.decision import ClassicCaller
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.consumer import classic_members, describing, patterns, removal
from kwire.groups.consumer.classic_join import HostedClassicJoin
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kwire.groups.consumer.heartbeat import ConsumerHeartbeat, asks_nothing
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import RECORDS
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer, PatternTimer
from kwire.groups.consumer.upgrade import upgrade
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.group import Group
from kwire.groups.timers import GroupTimer, SessionTimer


class ConsumerKind(
    AssignedKind[ConsumerGroup, ConsumerMember, ConsumerDecision, ConsumerGroupHeartbeatRequest]
):
    """Implements `kwire.groups.kind.GroupKind` and `kwire.groups.classic.kind.ClassicHost`."""

    type_name = CONSUMER_TYPE
    record_types: tuple[type[MachineRecord], ...] = RECORDS
    group_class = ConsumerGroup
    decision_class = ConsumerDecision
    heartbeat_class = ConsumerHeartbeat

    def kept_session(
        self, request: ConsumerGroupHeartbeatRequest, member: ConsumerMember, interval_ms: int
    ) -> tuple[TimerKey, int] | None:
        """The timer of a session and its delay in ms, if that is all that a heartbeat changes.

        `request` was valid when `member` sent it; None if the member is another object now, or if
        the response would have another heartbeat interval than `interval_ms`.
        """
        group = self.find(request.group_id)
        if group is None or group.members.get(request.member_id) is not member:
            return None
        instance_id = request.instance_id
        if instance_id is not None and group.static_members.get(instance_id) != member.member_id:
            return None
        settings = self._surroundings.settings(request.group_id)
        image = self._surroundings.image
        if (
            not asks_nothing(request, group, member)
            or settings.heartbeat_interval_ms != interval_ms
            or group.metadata_hash
            != self._hashes.of_group(request.group_id, group.topic_names, image)
        ):
            return None
        key = SessionTimer(request.group_id, member.member_id).key
        return key, settings.session_timeout_ms

    def leave(self, decision: ConsumerDecision, request: ConsumerGroupHeartbeatRequest) -> object:
        """Decide the heartbeat of a member that leaves, perhaps for a while if it is static."""
        member_id, epoch = request.member_id, request.member_epoch
        if request.instance_id is not None:
            member = static_member(decision.group, request.instance_id, member_id)
            if epoch == LEAVE_FOR_A_WHILE_EPOCH:
                decision.leave_for_a_while(member)
                return self.reply(member_id=member_id, member_epoch=epoch)
        return super().leave(decision, request)

    def reply(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:  # noqa: ANN401 - see base
        return ConsumerGroupHeartbeatResponse(**fields)

    def take_over(self, decision: ConsumerDecision, other: Group) -> None:
        """Convert a classic group into the decision's new group.  Raises Refusal."""
        if not isinstance(other, ClassicGroup):
            raise self.of_another_kind(other.group_id)
        upgrade(decision, other)

    def remove(self, decision: ConsumerDecision, member: ConsumerMember) -> None:
        removal.remove(decision, [member])

    def tombstones(self, group: ConsumerGroup) -> list[MachineRecord]:
        return removal.tombstones(group)

    def fire(self, decision: ConsumerDecision, timer: GroupTimer) -> None:
        """Decide about a timer: remove the member that was too late, or look up patterns."""
        match timer:
            case ClassicJoinTimer(member_id=member_id):
                self.fence(decision, member_id, "did not join again in time")
            case ClassicSyncTimer(member_id=member_id):
                self.fence(decision, member_id, "did not sync in time")
            case PatternTimer(may_describe=may_describe):
                patterns.resolve(decision, may_describe)
            case _:
                super().fire(decision, timer)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the description of a group, or its error if it is no consumer group."""
        try:
            group = self.existing(group_id)
        except Refusal as refusal:
            return DescribedGroup(refusal.error, refusal.message, group_id)
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
        """Decide JoinGroup of a member that uses the classic protocol in `group`."""
        decision = self.decision(group, now_ms)
        return HostedClassicJoin(decision, request, caller, new_member_id).decide(ticket)

    def classic_sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.sync(self.decision(group, now_ms), request, ticket)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.heartbeat(self.decision(group, now_ms), request, ticket)

    def classic_leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        return classic_members.leave(self.decision(group, now_ms), request, ticket)
