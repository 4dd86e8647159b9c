"""ConsumerGroupHeartbeat: a member joins, subscribes, reports its partitions and gets new ones.

- A heartbeat with epoch 0 joins.  Any other must have the member's epoch, or the previous epoch if
  the last response was lost.
- A change of the subscription begins the group's next epoch.
- The first heartbeat after that computes the target assignment.
- Each heartbeat moves its member one step towards the target.
- The topics of a new pattern are looked up after the response, so the member gets them later.
"""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    Assignment as ResponseAssignment,
)
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.coordinators.contract.pattern import InvalidRegex, RegexPattern
from kwire.groups.consumer.decision import (
    ConsumerCaller,
    ConsumerDecision,
    ConsumerRefusal,
    pattern_tombstone,
)
from kwire.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    NO_REBALANCE_TIMEOUT,
    AssignedPartitions,
    ConsumerMember,
    ConsumerMemberState,
)
from kwire.groups.consumer.patterns import refresh_when_due
from kwire.groups.consumer.reconciliation import OwnedPartitions
from kwire.groups.consumer.update import ConsumerUpdate
from kwire.groups.effects import GroupEffects, Ticket

REJOIN = "The member must abandon all its partitions and rejoin."


class ConsumerHeartbeat(ConsumerUpdate):
    """The decision about one heartbeat of a member that does not leave."""

    def __init__(
        self,
        decision: ConsumerDecision,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
    ) -> None:
        """`new_member_id` is used if the request has no member id."""
        super().__init__(decision)
        self._request = request
        self._caller = caller
        self._member_id = request.member_id or new_member_id

    def decide(self, ticket: Ticket) -> GroupEffects:
        member = self._refused_when_full() or self._find_or_create()
        outcome = member if isinstance(member, ConsumerRefusal) else self._beat(member)
        if isinstance(outcome, ConsumerRefusal):
            return GroupEffects.reply(ticket, outcome.response())
        self.decision.effects.replies.append((ticket, outcome))
        return self.decision.effects

    # -- identify the member

    def _refused_when_full(self) -> ConsumerRefusal | None:
        group, size_max = self.group, self.decision.limits.group_consumer_max_size
        if len(group.members) < size_max or self._request.member_id in group.members:
            return None
        return ConsumerRefusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )

    def _find_or_create(self) -> ConsumerMember | ConsumerRefusal:
        if self._request.instance_id is not None:
            return self._static(self._request.instance_id)
        member = self.group.members.get(self._member_id)
        if member is not None:
            return self._fenced(member) or member
        if self._request.member_epoch == JOIN_EPOCH:
            self.decision.note(f"member {self._member_id} joins")
            return ConsumerMember(self._member_id)
        return unknown_member(self._member_id, self.group.group_id)

    def _static(self, instance_id: str) -> ConsumerMember | ConsumerRefusal:
        member = self.group.static_member(instance_id)
        if self._request.member_epoch == JOIN_EPOCH:
            return self._static_joins(instance_id, member)
        return check_static(member, instance_id, self._member_id) or self._held_by(member)

    def _held_by(self, member: ConsumerMember | None) -> ConsumerMember | ConsumerRefusal:
        assert member is not None, "it was found to be a member"
        return self._fenced(member) or member

    def _static_joins(
        self, instance_id: str, holder: ConsumerMember | None
    ) -> ConsumerMember | ConsumerRefusal:
        if holder is None:
            self.decision.note(f"member {self._member_id} joins as {instance_id}")
            return self.group.members.get(self._member_id) or ConsumerMember(self._member_id)
        if holder.classic is None and holder.epoch != LEAVE_FOR_A_WHILE_EPOCH:
            return ConsumerRefusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {self._member_id} with instance id {instance_id} cannot join the "
                f"group because the instance id is owned by {holder.member_id} member.",
            )
        return self.replace_static_member(holder, self._member_id)

    def _fenced(self, member: ConsumerMember) -> ConsumerRefusal | None:
        """The refusal of a heartbeat whose epoch is not the member's, else None."""
        received = self._request.member_epoch
        if received in (JOIN_EPOCH, member.epoch):
            return None
        if received < member.epoch:
            owned = self._request.topic_partitions
            if received == member.previous_epoch and _is_part_of(owned, member.assigned):
                return None  # the response with the new epoch was lost
        than = "greater" if received > member.epoch else "smaller"
        return ConsumerRefusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {than} member epoch ({received}) than the one known "
            f"by the group coordinator ({member.epoch}). {REJOIN}",
        )

    # -- decide

    def _beat(self, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse | ConsumerRefusal:
        if self._is_quiet(member):
            self.decision.expect_heartbeat(member)
            return self._answer(member, with_assignment=False)
        return self._decide_in_full(member)

    def _is_quiet(self, member: ConsumerMember) -> bool:
        """Whether the heartbeat changes nothing and needs no assignment: nearly all are like that.

        `_decide_in_full` would give the same response in twice the time.
        """
        request, group, caller = self._request, self.group, self._caller
        return (
            request.member_epoch == member.epoch == group.epoch == group.target_epoch
            and member.state is ConsumerMemberState.STABLE
            and request.topic_partitions is None
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT
            and request.server_assignor is None
            and request.rack_id is None
            and member.classic is None
            and not group.pattern_members
            and member.client_id == caller.client_id
            and member.client_host == caller.client_host
            and group.metadata_hash == self.decision.metadata_hash(group.topic_names)
        )

    def _decide_in_full(
        self, member: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse | ConsumerRefusal:
        caller = self._caller
        updated = member.updated_by(self._request, caller.client_id, caller.client_host)
        if updated != member:
            self.decision.append(updated.to_metadata(self.group.group_id))
        changed = updated.topic_names != member.topic_names
        new_pattern = updated.pattern != member.pattern
        if new_pattern:
            refusal = self._change_pattern(member, updated)
            if refusal is not None:
                return refusal
        resolved = not updated.pattern or updated.pattern in self.group.patterns
        refresh_when_due(self.decision, member, updated, caller.may_describe)
        epoch = self.epoch(updated, begin=changed or (new_pattern and resolved))
        reconciled = self.reconcile(
            updated,
            self.target(updated, epoch),
            self._request.topic_partitions,
            subscription_changed=changed or new_pattern,
        )
        if reconciled is None:
            return ConsumerRefusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The consumer group member is in a unknown state. {REJOIN}",
            )
        if member.classic is not None:
            self.decision.cancel_timers(member.member_id)
        self.decision.expect_heartbeat(reconciled)
        return self._response(member, reconciled)

    def _change_pattern(
        self, member: ConsumerMember, updated: ConsumerMember
    ) -> ConsumerRefusal | None:
        """Check a new pattern, and delete the member's old one if no other member has it."""
        group, new = self.group, updated.pattern
        if new and not group.subscribers_of(new):
            refusal = _refused_pattern(new)
            if refusal is not None:
                return refusal
        if member.pattern and group.subscribers_of(member.pattern) == 1:
            self.decision.append(pattern_tombstone(group.group_id, member.pattern))
        return None

    def _response(
        self, member: ConsumerMember, reconciled: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """The response.  It has the assignment if the member joins, sent all its fields, or has a
        new assignment."""
        request = self._request
        full = (
            request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
            and request.topic_partitions is not None
        )
        joins, changed = request.member_epoch == JOIN_EPOCH, reconciled.assigned != member.assigned
        return self._answer(reconciled, with_assignment=joins or full or changed)

    def _answer(
        self, member: ConsumerMember, *, with_assignment: bool
    ) -> ConsumerGroupHeartbeatResponse:
        settings = self.decision.surroundings.settings(self.group.group_id)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=_assignment_of(member.assigned) if with_assignment else None,
        )


def unknown_member(member_id: str, group_id: str) -> ConsumerRefusal:
    return ConsumerRefusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def check_static(
    holder: ConsumerMember | None, instance_id: str, member_id: str
) -> ConsumerRefusal | None:
    """The refusal if the member is not the holder of its instance id, else None."""
    if holder is None:
        return ConsumerRefusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown."
        )
    if holder.member_id != member_id:
        return ConsumerRefusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return None


def _refused_pattern(pattern: str) -> ConsumerRefusal | None:
    try:
        RegexPattern(pattern)
    except InvalidRegex as problem:
        return ConsumerRefusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}.",
        )
    return None


def _is_part_of(owned: OwnedPartitions, assigned: AssignedPartitions) -> bool:
    """Whether the request lists owned partitions, and all of them are assigned to the member."""
    if owned is None:
        return False
    return all(
        partition in assigned.get(topic.topic_id, ())
        for topic in owned
        for partition in topic.partitions
    )


def _assignment_of(assigned: AssignedPartitions) -> ResponseAssignment:
    return ResponseAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
