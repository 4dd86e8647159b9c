"""SyncGroup, Heartbeat and LeaveGroup of members of the classic protocol in a consumer group."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.groups.assigned.member import MemberState
from kwire.groups.classic.decision import sync_error
from kwire.groups.consumer import embedded
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.removal import remove
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer
from kwire.groups.effects import GroupEffects, Ticket

# -- SyncGroup


def sync(decision: ConsumerDecision, request: SyncGroupRequest, ticket: Ticket) -> GroupEffects:
    """Decide SyncGroup: answer with the member's partitions, which are in the log already."""
    member = _classic_member(decision.group, request.member_id, request.group_instance_id)
    if not isinstance(member, ConsumerMember):
        return GroupEffects.reply(ticket, sync_error(member))
    error = _check_sync(decision.group, member, request)
    decision.reply(ticket, sync_error(error) if error else _assignment(decision, member, request))
    if error is ErrorCode.REBALANCE_IN_PROGRESS:
        _await_join(decision, member)
    elif error is ErrorCode.NONE:
        decision.cancel_timer(ClassicSyncTimer(decision.group_id, member.member_id).key)
        decision.expect_heartbeat(member)
    return decision.effects


def _check_sync(
    group: ConsumerGroup, member: ConsumerMember, request: SyncGroupRequest
) -> ErrorCode:
    """Check SyncGroup.  REBALANCE_IN_PROGRESS if the group has a newer epoch.

    A member that has to give up partitions gets its assignment instead: it rejoins after that.
    """
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, member.protocol.name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assignment(
    decision: ConsumerDecision, member: ConsumerMember, request: SyncGroupRequest
) -> SyncGroupResponse:
    """Return the SyncGroup response with the member's partitions.

    They are encoded in the version of the subscription that the member sent.
    """
    version = embedded.version_of(member.protocol.metadata)
    image = decision.surroundings.image
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded.encoded_assignment(member.assigned, image, version),
    )


# -- Heartbeat


def heartbeat(
    decision: ConsumerDecision, request: HeartbeatRequest, ticket: Ticket
) -> GroupEffects:
    """Decide Heartbeat.  REBALANCE_IN_PROGRESS makes the member rejoin, which is its next step."""
    member = _classic_member(decision.group, request.member_id, request.group_instance_id)
    if not isinstance(member, ConsumerMember):
        return GroupEffects.reply(ticket, HeartbeatResponse(error_code=member))
    if request.generation_id != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
        return GroupEffects.reply(ticket, HeartbeatResponse(error_code=error))
    decision.expect_heartbeat(member)
    error = ErrorCode.NONE
    if _should_join(decision.group, member):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(decision, member)
    decision.reply(ticket, HeartbeatResponse(error_code=error))
    return decision.effects


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the member must rejoin to take its next step.

    It must if its epoch is old, if it has to give up partitions, or if all the partitions that it
    waits for are free.
    """
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
        return True
    if member.state is not MemberState.UNRELEASED:
        return False
    return not any(
        group.is_held(topic_id, partition)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
        if partition not in member.assigned.get(topic_id, ())
    )


def _await_join(decision: ConsumerDecision, member: ConsumerMember) -> None:
    """Set the timer that removes the member if it does not rejoin, unless it is set already."""
    timer = ClassicJoinTimer(decision.group_id, member.member_id)
    decision.effects.timers_unless_set.append((timer.key, timer, member.rebalance_timeout_ms))


# -- LeaveGroup


def leave(decision: ConsumerDecision, request: LeaveGroupRequest, ticket: Ticket) -> GroupEffects:
    """Decide LeaveGroup: members of both protocols may leave, each with its own result."""
    leaving: dict[str, ConsumerMember] = {}
    answers = []
    for identity in request.members:
        member = _leaving(decision.group, identity)
        answer = MemberResponse(identity.member_id, identity.group_instance_id)
        if isinstance(member, ConsumerMember):
            reason = identity.reason or "it gave no reason"
            decision.note(f"member {member.member_id} leaves ({reason})")
            leaving[member.member_id] = member
        else:
            answer.error_code = member
        answers.append(answer)
    if leaving:
        remove(decision, leaving.values())
    decision.reply(ticket, LeaveGroupResponse(members=answers))
    return decision.effects


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    """Return the member that `identity` names, or the error.

    A static member may be named without its member id (KIP-345).
    """
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.members.get(identity.member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    holder = group.static_member(instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    same = identity.member_id in ("", holder.member_id)
    return holder if same else ErrorCode.FENCED_INSTANCE_ID


# -- identify the member


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | ErrorCode:
    """The member of the classic protocol that sends the request, else an error."""
    member = group.members.get(member_id)
    if instance_id is not None:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member
