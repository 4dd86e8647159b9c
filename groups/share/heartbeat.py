"""ShareGroupHeartbeat: a member joins, subscribes, gets its partitions, and leaves.

- A heartbeat with epoch 0 joins, one with epoch -1 leaves.  Any other must have the member's epoch,
  or the previous epoch if the last response was lost.
- A change of the subscription begins the group's next epoch.
- The first heartbeat after that computes the target assignment.
"""

from __future__ import annotations

from kwire.codecs.messages.share_group_heartbeat import (
    Assignment as ResponseAssignment,
)
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.groups.assigned.heartbeat import AssignedHeartbeat
from kwire.groups.assigned.member import JOIN_EPOCH
from kwire.groups.assigned.target import MemberTarget, is_same
from kwire.groups.assignment import Assignment
from kwire.groups.share import target
from kwire.groups.share.decision import ShareDecision, ShareHeartbeatReply
from kwire.groups.share.group import ShareGroup, topic_names_of
from kwire.groups.share.member import ShareGroupMember


class ShareHeartbeat(
    AssignedHeartbeat[ShareDecision, ShareGroupHeartbeatRequest, ShareGroupMember]
):
    """The decision about one heartbeat of a member that does not leave."""

    group: ShareGroup

    def decide(self) -> ShareHeartbeatReply:
        """Return the response, and the partitions to initialize after it.  Raises Refusal."""
        decision, group, request = self.decision, self.group, self.request
        self.check_room(decision.limits.group_share_max_size, request.member_id)
        member = self.find_or_create()
        updated = member.updated_by(request.rack_id, request.subscribed_topic_names, self.caller)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        changed = updated.topic_names != member.topic_names
        names = topic_names_of(decision.members_with(updated).values())
        epoch = self._epoch(names, begin=changed)
        moved = self._move(updated, decision.target(updated, epoch), changed)
        decision.expect_heartbeat(moved)
        initialization = decision.initialize(names, epoch)
        return ShareHeartbeatReply(self._response(member, moved), initialization)

    def about_smaller_epoch(self, member: ShareGroupMember) -> str:
        return f", and it does not match the previous member epoch ({member.previous_epoch})"

    def _epoch(self, names: frozenset[str], *, begin: bool) -> int:
        """Return the group's epoch after the heartbeat.

        The next epoch begins if subscriptions, topics or readable partitions changed.
        """
        group, decision = self.group, self.decision
        if group.target_epoch >= group.epoch:
            begin = begin or group.has_more_to_read
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        return decision.next_epoch(metadata_hash)

    def _move(
        self,
        updated: ShareGroupMember,
        goal: MemberTarget[Assignment],
        subscription_changed: bool,
    ) -> ShareGroupMember:
        """The member after it has taken over its target."""
        if updated.epoch == goal.epoch and not subscription_changed:
            return updated
        image = self.decision.surroundings.image
        moved = updated.moved(
            goal.epoch, target.within(goal.assignment, updated.topic_names, image)
        )
        if moved != updated:
            self.decision.append(moved.to_assignment(self.group.group_id))
        return moved

    def _response(
        self, before: ShareGroupMember, now: ShareGroupMember
    ) -> ShareGroupHeartbeatResponse:
        """Return the response with the member's epoch, and its assignment if it needs it.

        It needs it if it joins, sent its subscription, or has a new assignment.
        """
        request = self.request
        asked = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        with_assignment = asked or not is_same(before.assigned, now.assigned)
        return ShareGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=self.decision.settings.heartbeat_interval_ms,
            assignment=_assignment_of(now.assigned) if with_assignment else None,
        )


def _assignment_of(assigned: Assignment) -> ResponseAssignment:
    """Return the member's partitions as the response has them, sorted by index."""
    return ResponseAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
