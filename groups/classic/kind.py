"""The classic kind of groups: its requests, its records, its timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import JoinGroupRequest
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.classic import members, rebalance
from kwire.groups.classic.decision import Caller, Decision, join_error, sync_error
from kwire.groups.classic.group import CLASSIC_TYPE, ClassicGroup, Member
from kwire.groups.classic.join import Join
from kwire.groups.classic.records import GroupMetadata, group_tombstone
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import InitialJoinTimer, JoinTimer, SyncTimer
from kwire.groups.effects import Effects, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import Groups, Kind
from kwire.groups.limits import GroupLimits
from kwire.groups.timers import GroupTimer, SessionTimer

NOT_FOUND_IS_AN_ERROR_SINCE = 6  # DescribeGroups
"""Before, a group that does not exist was described as Dead, without an error (KIP-1043)."""


@runtime_checkable
class Host(Protocol):
    """A kind whose groups also take in members that speak the classic protocol."""

    def classic_join(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: JoinGroupRequest,
        caller: Caller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects: ...

    def classic_sync(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: SyncGroupRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects: ...

    def classic_heartbeat(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: HeartbeatRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects: ...

    def classic_leave(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: LeaveGroupRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects: ...


class Classic:
    """A `kwire.groups.kind.Kind`; `groups` are the machine's, of all kinds."""

    type_name = CLASSIC_TYPE
    record_types: tuple[type[MachineRecord], ...] = (GroupMetadata,)

    def __init__(
        self,
        groups: Groups,
        limits: GroupLimits,
        kind_of: Callable[[Group], Kind],
    ) -> None:
        """`kind_of` a group that is of another kind."""
        self._groups = groups
        self._limits = limits
        self._kind_of = kind_of

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _hosted(self, group_id: str) -> tuple[Host, Group] | None:
        """A group of another kind whose members may speak the classic protocol, and the kind."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return None
        kind = self._kind_of(group)
        return (kind, group) if isinstance(kind, Host) else None

    def is_hosted(self, group_id: str) -> bool:
        """Whether who joins now comes into a group of another kind, where ids look otherwise."""
        hosted = self._hosted(group_id)
        return hosted is not None and not hosted[1].may_turn_classic

    def _decision(self, group: ClassicGroup, now_ms: int) -> Decision:
        return Decision(group, self._limits, now_ms)

    # -- membership

    def join(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        """`new_member_id` is used where the member has none yet."""
        group = self._find(request.group_id)
        if group is not None:
            decision = self._decision(group, now_ms)
            return Join(decision, request, caller, ticket, new_member_id).decide()
        other = self._groups.get(request.group_id)
        if other is not None and not other.may_turn_classic:
            hosted = self._hosted(request.group_id)
            if hosted is not None:
                host, other = hosted
                return host.classic_join(other, request, caller, new_member_id, ticket, now_ms)
            return Effects.reply(ticket, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if request.member_id:
            error = join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return Effects.reply(ticket, error)
        group = ClassicGroup(request.group_id, state_timestamp_ms=now_ms)
        decision = self._decision(group, now_ms)
        effects = Join(decision, request, caller, ticket, new_member_id).decide()
        if other is not None:
            effects.records += self._kind_of(other).tombstones(other)
        effects.records.append(group.to_record({}))  # the group exists, whatever comes of the join
        return effects

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self._find(request.group_id)
        if group is not None:
            return members.sync(self._decision(group, now_ms), request, ticket)
        hosted = self._hosted(request.group_id)
        if hosted is not None:
            host, other = hosted
            return host.classic_sync(other, request, ticket, now_ms)
        return Effects.reply(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self._find(request.group_id)
        if group is not None:
            return members.heartbeat(group, request, ticket)
        hosted = self._hosted(request.group_id)
        if hosted is not None:
            host, other = hosted
            return host.classic_heartbeat(other, request, ticket, now_ms)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        return Effects.reply(ticket, HeartbeatResponse(error_code=error))

    def leave(self, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self._find(request.group_id)
        if group is not None:
            return members.leave(self._decision(group, now_ms), request, ticket)
        hosted = self._hosted(request.group_id)
        if hosted is not None:
            host, other = hosted
            return host.classic_leave(other, request, ticket, now_ms)
        answers = [
            MemberResponse(m.member_id, m.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
            for m in request.members
        ]
        return Effects.reply(ticket, LeaveGroupResponse(members=answers))

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._find(group_id)
        if group is not None:
            return _described(group)
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= NOT_FOUND_IS_AN_ERROR_SINCE:
            what = "is not a classic group" if group_id in self._groups else "not found"
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {what}."
        return described

    # -- the kind

    def begin(self, group_id: str) -> None:
        """A simple group, which only commits offsets."""
        self._groups[group_id] = ClassicGroup(group_id)

    def apply(self, record: GroupMetadata) -> None:
        group_id = record.key.group
        if record.value is None:
            if self._find(group_id) is not None:
                del self._groups[group_id]
        else:
            self._groups[group_id] = ClassicGroup.from_record(group_id, record.value)

    def tombstones(self, group: ClassicGroup) -> list[MachineRecord]:
        return [group_tombstone(group.group_id)]

    def loaded(self, group: ClassicGroup, now_ms: int) -> Effects:
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member)
        if len(group.members) > self._limits.group_max_size:
            # A chance to commit before the members that are too many are kept out.
            rebalance.prepare(decision, "it is over group.max.size")
        return decision.effects

    def unloaded(self, group: ClassicGroup, now_ms: int) -> Effects:
        decision = self._decision(group, now_ms)
        for member_id in group.members:
            decision.answer_join(member_id, join_error(ErrorCode.NOT_COORDINATOR, member_id))
            decision.answer_sync(member_id, sync_error(ErrorCode.NOT_COORDINATOR))
        decision.group.transition_to(ClassicState.DEAD, now_ms)
        return decision.effects

    def due(self, group: ClassicGroup, timer: GroupTimer, now_ms: int) -> Effects:
        if group.state is ClassicState.DEAD:
            return Effects()
        decision = self._decision(group, now_ms)
        match timer:
            case SessionTimer(member_id=member_id):
                return rebalance.session_due(decision, member_id)
            case InitialJoinTimer():
                return rebalance.initial_join_due(decision, timer)
            case JoinTimer():
                return rebalance.join_due(decision)
            case SyncTimer():
                return rebalance.sync_due(decision, timer)
        return Effects()  # of a group of another kind, which this one has followed

    def committed(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        if group.state is not ClassicState.EMPTY:
            members.keep_session(effects, group, member_id)


def _described(group: ClassicGroup) -> DescribedGroup:
    """The protocol and the members' metadata of it are known of a stable group only."""
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            _described_member(member, group.protocol_name if stable else None)
            for member in group.members.values()
        ],
    )


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
