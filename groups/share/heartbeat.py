"""ShareGroupHeartbeat: a member joins, subscribes, gets its partitions, and leaves.

- A heartbeat with epoch 0 joins, one with epoch -1 leaves.  Any other must have the member's epoch,
  or the previous epoch if the last response was lost.
- A change of the subscription begins the group's next epoch.
- The first heartbeat after that computes the target assignment.
"""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import (
    Assignment as ResponseAssignment,
)
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.groups.assigning import is_same, may_be_computed
from kwire.groups.assignment import Assignment, as_read
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.share import target
from kwire.groups.share.decision import ShareDecision, ShareHeartbeatReply, ShareRefusal
from kwire.groups.share.group import ShareGroup, topic_names_of
from kwire.groups.share.member import JOIN_EPOCH, ShareGroupMember

REJOIN = "The member must abandon all its partitions and rejoin."


class ShareHeartbeat:
    """The decision about one heartbeat of a member that does not leave."""

    def __init__(
        self,
        decision: ShareDecision,
        request: ShareGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
    ) -> None:
        self._decision = decision
        self._group = decision.group
        self._request = request
        self._client = client_id, client_host

    def decide(self, ticket: Ticket) -> GroupEffects:
        """The effects of the heartbeat.  The reply is a ShareHeartbeatReply."""
        member = self._refused_when_full() or self._find_or_create()
        if isinstance(member, ShareRefusal):
            return GroupEffects.reply(ticket, ShareHeartbeatReply(member.response()))
        self._decision.effects.replies.append((ticket, self._beat(member)))
        return self._decision.effects

    # -- identify the member

    def _refused_when_full(self) -> ShareRefusal | None:
        group, size_max = self._group, self._decision.limits.group_share_max_size
        if len(group.members) < size_max or self._request.member_id in group.members:
            return None
        return ShareRefusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )

    def _find_or_create(self) -> ShareGroupMember | ShareRefusal:
        member_id = self._request.member_id
        member = self._group.members.get(member_id)
        if member is not None:
            return self._fenced(member) or member
        if self._request.member_epoch == JOIN_EPOCH:
            self._decision.note(f"member {member_id} joins")
            return ShareGroupMember(member_id)
        return unknown_member(member_id, self._group)

    def _fenced(self, member: ShareGroupMember) -> ShareRefusal | None:
        """The refusal of a heartbeat whose epoch is not the member's, else None."""
        received = self._request.member_epoch
        if received in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            return None
        known = f"({received}) than the one known by the group coordinator ({member.epoch})"
        if received > member.epoch:
            what = f"greater member epoch {known}. {REJOIN}"
        else:
            before = f"and it does not match the previous member epoch ({member.previous_epoch})"
            what = f"smaller member epoch {known}, {before}. {REJOIN}"
        return ShareRefusal(ErrorCode.FENCED_MEMBER_EPOCH, f"The share group member has a {what}")

    # -- decide

    def _beat(self, member: ShareGroupMember) -> ShareHeartbeatReply:
        group, decision, request = self._group, self._decision, self._request
        updated = member.updated_by(request.rack_id, request.subscribed_topic_names, *self._client)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        changed = updated.topic_names != member.topic_names
        names = self._names(updated)
        epoch = self._epoch(names, begin=changed)
        moved = self._move(updated, *self._target(updated, epoch), changed)
        decision.expect_heartbeat(member.member_id)
        initialization = decision.initialize(names, epoch)
        return ShareHeartbeatReply(self._response(member, moved), initialization)

    def _members(self, updated: ShareGroupMember) -> dict[str, ShareGroupMember]:
        return {**self._group.members, updated.member_id: updated}

    def _names(self, updated: ShareGroupMember) -> frozenset[str]:
        return topic_names_of(self._members(updated).values())

    def _epoch(self, names: frozenset[str], *, begin: bool) -> int:
        """The group's epoch after the heartbeat: the next one if subscriptions, topics or readable
        partitions changed."""
        group, decision = self._group, self._decision
        if group.target_epoch >= group.epoch:
            begin = begin or group.has_more_to_read
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        return decision.next_epoch(metadata_hash)

    def _target(self, updated: ShareGroupMember, epoch: int) -> tuple[int, Assignment]:
        """The member's target and its epoch; a new target assignment is computed if it is due."""
        group, decision = self._group, self._decision
        settings = decision.surroundings.share_settings(group.group_id)
        interval_ms, now_ms = settings.assignment_interval_ms, decision.now_ms
        due = may_be_computed(group.target_timestamp_ms, interval_ms, now_ms)
        if group.target_epoch >= epoch or not due:
            return group.target_epoch, group.target.get(updated.member_id, {})
        members = self._members(updated).values()
        assigned = target.compute(group, members, decision.surroundings.image)
        for member_id, assignment in assigned.items():
            before = group.target.get(member_id)
            if before is None or not is_same(before, assignment):
                decision.append(target.record(group.group_id, member_id, assignment))
        decision.append(target.epoch_record(group.group_id, epoch, now_ms))
        return epoch, as_read(assigned[updated.member_id].items())

    def _move(
        self, updated: ShareGroupMember, epoch: int, goal: Assignment, subscription_changed: bool
    ) -> ShareGroupMember:
        if updated.epoch == epoch and not subscription_changed:
            return updated
        image = self._decision.surroundings.image
        moved = updated.moved(epoch, target.within(goal, updated.topic_names, image))
        if moved != updated:
            self._decision.append(moved.to_assignment(self._group.group_id))
        return moved

    def _response(
        self, before: ShareGroupMember, now: ShareGroupMember
    ) -> ShareGroupHeartbeatResponse:
        """The response.  It has the assignment if the member joins, sent its subscription, or has
        a new assignment."""
        request = self._request
        asked = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        with_assignment = asked or not is_same(before.assigned, now.assigned)
        settings = self._decision.surroundings.share_settings(self._group.group_id)
        return ShareGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=_assignment_of(now.assigned) if with_assignment else None,
        )


def leave(
    decision: ShareDecision, request: ShareGroupHeartbeatRequest, ticket: Ticket
) -> GroupEffects:
    member = decision.group.members.get(request.member_id)
    if member is None:
        refusal = unknown_member(request.member_id, decision.group)
        return GroupEffects.reply(ticket, ShareHeartbeatReply(refusal.response()))
    decision.note(f"member {member.member_id} leaves")
    decision.fence(member)
    response = ShareGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    decision.effects.replies.append((ticket, ShareHeartbeatReply(response)))
    return decision.effects


def unknown_member(member_id: str, group: ShareGroup) -> ShareRefusal:
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return ShareRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)


def _assignment_of(assigned: Assignment) -> ResponseAssignment:
    return ResponseAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
