"""The classic kind of groups: its requests, records and timers."""

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
from kwire.coordinators.contract.effects import TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.classic import members, rebalance
from kwire.groups.classic.decision import ClassicCaller, ClassicDecision, join_error, sync_error
from kwire.groups.classic.group import CLASSIC_TYPE, ClassicGroup, ClassicMember
from kwire.groups.classic.join import ClassicJoin
from kwire.groups.classic.records import GroupMetadata, group_tombstone
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import InitialJoinTimer, JoinTimer, SyncTimer
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import GroupKind, Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.timers import GroupTimer, SessionTimer

NOT_FOUND_IS_AN_ERROR_SINCE = 6  # DescribeGroups
"""In earlier versions a missing group is described as Dead, without an error (KIP-1043)."""


@runtime_checkable
class ClassicHost(Protocol):
    """A kind whose groups also accept members that use the classic protocol."""

    def classic_join(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: JoinGroupRequest,
        caller: ClassicCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide JoinGroup of a member that uses the classic protocol in `group`."""
        ...

    def classic_sync(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: SyncGroupRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide SyncGroup of a member that uses the classic protocol in `group`."""
        ...

    def classic_heartbeat(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: HeartbeatRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide Heartbeat of a member that uses the classic protocol in `group`."""
        ...

    def classic_leave(
        self,
        group: Any,  # noqa: ANN401 - of its kind
        request: LeaveGroupRequest,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide LeaveGroup; the members may use either protocol."""
        ...


class ClassicKind:
    """Implements `kwire.groups.kind.GroupKind`; `groups` are the machine's groups of all kinds."""

    type_name = CLASSIC_TYPE
    record_types: tuple[type[MachineRecord], ...] = (GroupMetadata,)

    def __init__(
        self,
        groups: Groups,
        limits: GroupLimits,
        kind_of: Callable[[Group], GroupKind],
    ) -> None:
        """`kind_of` returns the kind of a group that is not a classic one."""
        self._groups = groups
        self._limits = limits
        self._kind_of = kind_of

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _hosted(self, group_id: str) -> tuple[ClassicHost, Group] | None:
        """The kind and the group, if it is of another kind that accepts classic members."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return None
        kind = self._kind_of(group)
        return (kind, group) if isinstance(kind, ClassicHost) else None

    def is_hosted(self, group_id: str) -> bool:
        """Whether a join goes to a group of another kind, which has another form of member ids."""
        hosted = self._hosted(group_id)
        return hosted is not None and not hosted[1].may_become_classic

    def _decision(self, group: ClassicGroup, now_ms: int) -> ClassicDecision:
        return ClassicDecision(group, self._limits, now_ms)

    # -- membership

    def join(
        self,
        request: JoinGroupRequest,
        caller: ClassicCaller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> GroupEffects:
        """Decide JoinGroup.  `new_member_id` is used if the request has no member id."""
        group = self._find(request.group_id)
        if group is not None:
            decision = self._decision(group, now_ms)
            return ClassicJoin(decision, request, caller, ticket, new_member_id).decide()
        other = self._groups.get(request.group_id)
        if other is not None and not other.may_become_classic:
            hosted = self._hosted(request.group_id)
            if hosted is not None:
                host, other = hosted
                return host.classic_join(other, request, caller, new_member_id, ticket, now_ms)
            return GroupEffects.reply(ticket, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if request.member_id:
            error = join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return GroupEffects.reply(ticket, error)
        group = ClassicGroup(request.group_id, state_timestamp_ms=now_ms)
        decision = self._decision(group, now_ms)
        effects = ClassicJoin(decision, request, caller, ticket, new_member_id).decide()
        if other is not None:
            effects.records += self._kind_of(other).tombstones(other)
        effects.records.append(group.to_record({}))  # create the group, even if the join is refused
        return effects

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> GroupEffects:
        """Decide SyncGroup, also for a classic member in a group of another kind.

        UNKNOWN_MEMBER_ID if the group does not exist.
        """
        group = self._find(request.group_id)
        if group is not None:
            return members.sync(self._decision(group, now_ms), request, ticket)
        hosted = self._hosted(request.group_id)
        if hosted is not None:
            host, other = hosted
            return host.classic_sync(other, request, ticket, now_ms)
        return GroupEffects.reply(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> GroupEffects:
        """Decide Heartbeat, also for a classic member in a group of another kind.

        UNKNOWN_MEMBER_ID if the group does not exist.
        """
        group = self._find(request.group_id)
        if group is not None:
            return members.heartbeat(group, request, ticket)
        hosted = self._hosted(request.group_id)
        if hosted is not None:
            host, other = hosted
            return host.classic_heartbeat(other, request, ticket, now_ms)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        return GroupEffects.reply(ticket, HeartbeatResponse(error_code=error))

    def kept_session(self, request: HeartbeatRequest) -> tuple[TimerKey, int] | None:
        """The timer of a session and its delay in ms, if a heartbeat has no error, else None.

        None also for a member of a group of another kind.
        """
        group = self._find(request.group_id)
        if group is None or members.heartbeat_error(group, request) is not ErrorCode.NONE:
            return None
        member_id = request.member_id
        key = SessionTimer(group.group_id, member_id).key
        return key, group.members[member_id].session_timeout_ms

    def leave(self, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> GroupEffects:
        """Decide LeaveGroup, also for a group of another kind that accepts classic members.

        Each member has UNKNOWN_MEMBER_ID if the group does not exist.
        """
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
        return GroupEffects.reply(ticket, LeaveGroupResponse(members=answers))

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """Return the description of a group; one that does not exist is Dead."""
        group = self._find(group_id)
        if group is not None:
            return _described(group)
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= NOT_FOUND_IS_AN_ERROR_SINCE:
            what = "is not a classic group" if group_id in self._groups else "not found"
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {what}."
        return described

    # -- the interface of a kind

    def begin(self, group_id: str) -> None:
        """Create a simple group, which only commits offsets."""
        self._groups[group_id] = ClassicGroup(group_id)

    def apply(self, record: GroupMetadata) -> None:
        """Replace the group by the one in the record, or delete it if the record is a tombstone.

        A tombstone deletes only a classic group, not one of another kind with the same id.
        """
        group_id = record.key.group
        if record.value is None:
            if self._find(group_id) is not None:
                del self._groups[group_id]
        else:
            self._groups[group_id] = ClassicGroup.from_record(group_id, record.value)

    def tombstones(self, group: ClassicGroup) -> list[MachineRecord]:
        return [group_tombstone(group.group_id)]

    def loaded(self, group: ClassicGroup, now_ms: int) -> GroupEffects:
        """Return the effects after a load: each member's session starts anew.

        A group that is over `group.max.size` begins a rebalance.
        """
        decision = self._decision(group, now_ms)
        for member in group.members.values():
            decision.expect_heartbeat(member)
        if len(group.members) > self._limits.group_max_size:
            # The members can commit before the rebalance removes the ones over the limit.
            rebalance.prepare(decision, "it is over group.max.size")
        return decision.effects

    def unloaded(self, group: ClassicGroup, now_ms: int) -> GroupEffects:
        """Return the effects of a resignation: parked requests get NOT_COORDINATOR.

        The group is Dead after that, so timers that fire later change nothing.
        """
        decision = self._decision(group, now_ms)
        for member_id in group.members:
            decision.answer_join(member_id, join_error(ErrorCode.NOT_COORDINATOR, member_id))
            decision.answer_sync(member_id, sync_error(ErrorCode.NOT_COORDINATOR))
        decision.group.transition_to(ClassicState.DEAD, now_ms)
        return decision.effects

    def timer_fired(self, group: ClassicGroup, timer: GroupTimer, now_ms: int) -> GroupEffects:
        """Return the effects of a timer; a Dead group ignores it."""
        if group.state is ClassicState.DEAD:
            return GroupEffects()
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
        return GroupEffects()  # a timer of another kind's group that this group has replaced

    def member_committed(self, group: ClassicGroup, member_id: str, effects: GroupEffects) -> None:
        if group.state is not ClassicState.EMPTY:
            members.keep_session(effects, group, member_id)


def _described(group: ClassicGroup) -> DescribedGroup:
    """The description of a group; only a stable group has a protocol and member metadata."""
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


def _described_member(member: ClassicMember, protocol_name: str | None) -> DescribedGroupMember:
    """Return the description of one member; without a protocol it has no metadata."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
