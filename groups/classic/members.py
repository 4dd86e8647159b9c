"""SyncGroup, Heartbeat and LeaveGroup for classic groups."""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.groups.classic.decision import ClassicDecision, sync_error
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.rebalance import (
    assign,
    complete_if_all_joined,
    fail_syncs,
    prepare_or_complete,
    remove_member,
)
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import SyncTimer
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.timers import SessionTimer

# -- SyncGroup


def sync(decision: ClassicDecision, request: SyncGroupRequest, ticket: Ticket) -> GroupEffects:
    """Decide SyncGroup: answer it in a stable group, else park it until the leader's assignment."""
    group = decision.group
    error = _check_sync(group, request)
    if error is not ErrorCode.NONE:
        decision.reply(ticket, sync_error(error))
    elif group.state is ClassicState.PREPARING_REBALANCE:
        decision.reply(ticket, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    elif group.state is ClassicState.STABLE:
        _has_synced(decision, request.member_id)
        decision.reply(ticket, decision.assignment(request.member_id))
    else:
        decision.park_sync(request.member_id, ticket)
        _has_synced(decision, request.member_id)
        if request.member_id == group.leader_id:
            _take_assignment(decision, request)
    return decision.effects


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    """Return the error of a SyncGroup, NONE if it may be answered or parked.

    The order of the checks decides which of several errors the client sees: Kafka's order.
    """
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differs(theirs: str | None, ours: str | None) -> bool:
    return theirs is not None and ours is not None and theirs != ours


def _has_synced(decision: ClassicDecision, member_id: str) -> None:
    """Note that a member of this generation has synced; after the last one cancel the timer."""
    group = decision.group
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        decision.cancel_timer(SyncTimer(group.group_id, group.generation_id).key)


def _take_assignment(decision: ClassicDecision, request: SyncGroupRequest) -> None:
    """Write the leader's assignment, then answer all members; unassigned members get b""."""
    assignments = {a.member_id: a.assignment for a in request.assignments}
    undone = ClassicDecision(decision.group, decision.limits, decision.now_ms)
    undone.effects.timers += decision.effects.timers
    decision.effects.records.append(decision.group.to_record(assignments))
    assign(decision, assignments)

    def refused(error: ErrorCode) -> GroupEffects:
        # The log has refused the record: the group goes on from its state before the SyncGroup.
        fail_syncs(undone, error)
        prepare_or_complete(undone, f"its assignment could not be stored: {error.name}")
        return undone.effects

    decision.effects.refused = refused


# -- Heartbeat


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, ticket: Ticket) -> GroupEffects:
    """Decide Heartbeat: restart the session; REBALANCE_IN_PROGRESS makes the member rejoin."""
    error = heartbeat_error(group, request)
    effects = GroupEffects.reply(ticket, HeartbeatResponse(error_code=error))
    if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        keep_session(effects, group, request.member_id)
    return effects


def heartbeat_error(group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """Return the error of a Heartbeat, NONE if a member of this generation sent it.

    REBALANCE_IN_PROGRESS is the error of such a member while the group prepares a rebalance.
    """
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def keep_session(effects: GroupEffects, group: ClassicGroup, member_id: str) -> None:
    """Restart the member's session."""
    timer = SessionTimer(group.group_id, member_id)
    effects.timers.append((timer.key, timer, group.members[member_id].session_timeout_ms))


# -- LeaveGroup


def leave(decision: ClassicDecision, request: LeaveGroupRequest, ticket: Ticket) -> GroupEffects:
    """Decide LeaveGroup: remove each member, with one result each and one rebalance for all."""
    group = decision.group
    if group.state is ClassicState.DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return GroupEffects.reply(ticket, LeaveGroupResponse(error_code=error))
    answers = [_leave_one(decision, identity) for identity in request.members]
    if any(answer.error_code == ErrorCode.NONE for answer in answers):
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            prepare_or_complete(decision, "members left")
        else:
            complete_if_all_joined(decision)
    effects = decision.effects
    others = effects.replies.copy()
    decision.reply(ticket, LeaveGroupResponse(members=answers))
    if effects.records:
        # The members are removed even if the append fails; see rebalance.keep_when_refused.
        effects.refused = lambda error: replace(
            effects,
            records=[],
            replies=[*others, (ticket, LeaveGroupResponse(error_code=error))],
        )
    return effects


def _leave_one(decision: ClassicDecision, identity: MemberIdentity) -> MemberResponse:
    """Remove one member; a request without member id removes a static member (KIP-345)."""
    group = decision.group
    answer = MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id
    )
    member_id = identity.member_id
    if not member_id:
        holder = group.static_members.get(identity.group_instance_id or "")
        if holder is None or identity.group_instance_id is None:
            answer.error_code = ErrorCode.UNKNOWN_MEMBER_ID
            return answer
        member_id = holder
    elif member_id in group.pending_joins:
        group.remove(member_id)
        decision.end_session(member_id)
        return answer
    else:
        answer.error_code = group.check_member(member_id, identity.group_instance_id)
        if answer.error_code != ErrorCode.NONE:
            return answer
    decision.note(f"member {member_id} leaves ({identity.reason or 'it gave no reason'})")
    remove_member(decision, member_id)
    decision.end_session(member_id)
    return answer
