"""A heartbeat that leaves the group: for good or, for a static member, for a while."""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.groups.consumer.decision import ConsumerDecision, ConsumerRefusal
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.heartbeat import check_static, unknown_member
from kwire.groups.consumer.member import LEAVE_FOR_A_WHILE_EPOCH, NOTHING_HELD, ConsumerMember
from kwire.groups.consumer.removal import remove
from kwire.groups.effects import GroupEffects, Ticket


def leave(
    decision: ConsumerDecision, request: ConsumerGroupHeartbeatRequest, ticket: Ticket
) -> GroupEffects:
    member = _leaving(decision.group, request)
    if isinstance(member, ConsumerRefusal):
        return GroupEffects.reply(ticket, member.response())
    if request.instance_id is not None and request.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
        _leave_for_a_while(decision, member)
    else:
        decision.note(f"member {member.member_id} leaves")
        remove(decision, [member])
    response = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    decision.effects.replies.append((ticket, response))
    return decision.effects


def _leaving(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember | ConsumerRefusal:
    member_id, instance_id = request.member_id, request.instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        return member or unknown_member(member_id, group.group_id)
    holder = group.static_member(instance_id)
    refusal = check_static(holder, instance_id, member_id)
    if refusal is not None:
        return refusal
    assert holder is not None, "it was found to be a member"
    return holder


def _leave_for_a_while(decision: ConsumerDecision, member: ConsumerMember) -> None:
    """Keep the member and its session: no other member gets its partitions until that ends."""
    decision.note(f"member {member.member_id} leaves for a while")
    assigned = {topic_id: dict.fromkeys(these, 0) for topic_id, these in member.assigned.items()}
    away = replace(member, epoch=LEAVE_FOR_A_WHILE_EPOCH, assigned=assigned, revoking=NOTHING_HELD)
    decision.append(away.to_assignment(decision.group.group_id))
