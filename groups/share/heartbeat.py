"""ShareGroupHeartbeat: a member joins, says what it wants, is told what to read, and leaves.

A heartbeat with epoch 0 joins, one with -1 leaves.  Any other must be of the member's epoch, or of
the one before where the reply was lost.  It may change what the member is subscribed to and so
begin the group's next epoch; whoever comes first afterwards has the target computed.
"""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import (
    Assignment as ToldAssignment,
)
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.groups.assigning import is_same, may_be_computed
from kwire.groups.consumer.assignors.spec import Assignment, as_read
from kwire.groups.effects import Effects, Ticket
from kwire.groups.share import target
from kwire.groups.share.decision import Decision, HeartbeatReply, Refusal
from kwire.groups.share.group import ShareGroup, topic_names_of
from kwire.groups.share.member import JOIN_EPOCH, ShareMember

REJOIN = "The member must abandon all its partitions and rejoin."


class Heartbeat:
    """One heartbeat, of a member that does not leave."""

    def __init__(
        self,
        decision: Decision,
        request: ShareGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
    ) -> None:
        self._decision = decision
        self._group = decision.group
        self._request = request
        self._client = client_id, client_host

    def decide(self, ticket: Ticket) -> Effects:
        """The reply is a HeartbeatReply."""
        known = self._refused_when_full() or self._known()
        if isinstance(known, Refusal):
            return Effects.reply(ticket, HeartbeatReply(known.response()))
        self._decision.effects.replies.append((ticket, self._beat(known)))
        return self._decision.effects

    # -- who is it?

    def _refused_when_full(self) -> Refusal | None:
        group, most = self._group, self._decision.limits.group_share_max_size
        if len(group.members) < most or self._request.member_id in group.members:
            return None
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
        )

    def _known(self) -> ShareMember | Refusal:
        member_id = self._request.member_id
        member = self._group.members.get(member_id)
        if member is not None:
            return self._fenced(member) or member
        if self._request.member_epoch == JOIN_EPOCH:
            self._decision.note(f"member {member_id} joins")
            return ShareMember(member_id)
        return unknown_member(member_id, self._group)

    def _fenced(self, member: ShareMember) -> Refusal | None:
        """Whether the member's word is not of its epoch."""
        received = self._request.member_epoch
        if received in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            return None
        known = f"({received}) than the one known by the group coordinator ({member.epoch})"
        if received > member.epoch:
            what = f"greater member epoch {known}. {REJOIN}"
        else:
            before = f"and it does not match the previous member epoch ({member.previous_epoch})"
            what = f"smaller member epoch {known}, {before}. {REJOIN}"
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, f"The share group member has a {what}")

    # -- what does it say?

    def _beat(self, member: ShareMember) -> HeartbeatReply:
        group, decision, request = self._group, self._decision, self._request
        updated = member.told(request.rack_id, request.subscribed_topic_names, *self._client)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        changed = updated.topic_names != member.topic_names
        names = self._names(updated)
        epoch = self._epoch(names, begin=changed)
        moved = self._move(updated, *self._target(updated, epoch), changed)
        decision.expect_heartbeat(member.member_id)
        initialization = decision.initialize(names, epoch)
        return HeartbeatReply(self._response(member, moved), initialization)

    def _members(self, updated: ShareMember) -> dict[str, ShareMember]:
        return {**self._group.members, updated.member_id: updated}

    def _names(self, updated: ShareMember) -> frozenset[str]:
        return topic_names_of(self._members(updated).values())

    def _epoch(self, names: frozenset[str], *, begin: bool) -> int:
        """The group's epoch, the next one where there is something else to read."""
        group, decision = self._group, self._decision
        if group.target_epoch >= group.epoch:
            begin = begin or group.has_more_to_read
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        return decision.next_epoch(metadata_hash)

    def _target(self, updated: ShareMember, epoch: int) -> tuple[int, Assignment]:
        """What the member is to read as of which epoch, computed for everybody if it is time."""
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
        self, updated: ShareMember, epoch: int, goal: Assignment, subscription_changed: bool
    ) -> ShareMember:
        if updated.epoch == epoch and not subscription_changed:
            return updated
        image = self._decision.surroundings.image
        moved = updated.moved(epoch, target.within(goal, updated.topic_names, image))
        if moved != updated:
            self._decision.append(moved.to_assignment(self._group.group_id))
        return moved

    def _response(self, before: ShareMember, now: ShareMember) -> ShareGroupHeartbeatResponse:
        """The assignment is told who joins, asks for it, or gets another than before."""
        request = self._request
        asked = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        told = asked or not is_same(before.assigned, now.assigned)
        settings = self._decision.surroundings.share_settings(self._group.group_id)
        return ShareGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=_told(now.assigned) if told else None,
        )


def leave(decision: Decision, request: ShareGroupHeartbeatRequest, ticket: Ticket) -> Effects:
    member = decision.group.members.get(request.member_id)
    if member is None:
        refusal = unknown_member(request.member_id, decision.group)
        return Effects.reply(ticket, HeartbeatReply(refusal.response()))
    decision.note(f"member {member.member_id} leaves")
    decision.fence(member)
    response = ShareGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    decision.effects.replies.append((ticket, HeartbeatReply(response)))
    return decision.effects


def unknown_member(member_id: str, group: ShareGroup) -> Refusal:
    sentence = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)


def _told(assigned: Assignment) -> ToldAssignment:
    return ToldAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
