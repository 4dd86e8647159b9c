"""ConsumerGroupHeartbeat: a member joins, says what it wants and owns, and is told what it has.

A heartbeat with epoch 0 joins.  Any other must be of the member's epoch, or of the one before where
the reply was lost.  It may change what the member is subscribed to and so begin the group's next
epoch; whoever comes first afterwards has the target computed; each heartbeat brings its member one
step nearer to it.  A member of a pattern is told of topics once they have been found, behind the
reply.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    Assignment as ToldAssignment,
)
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.coordinator.pattern import InvalidPattern, Pattern
from kwire.groups.consumer import target
from kwire.groups.consumer.decision import (
    ConsumerCaller,
    Decision,
    Refusal,
    partition_metadata_tombstone,
    pattern_tombstone,
)
from kwire.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    NO_REBALANCE_TIMEOUT,
    ConsumerMember,
    Held,
    MemberState,
)
from kwire.groups.consumer.patterns import refresh_when_due
from kwire.groups.consumer.reconciliation import Owned, Reconciliation, Target
from kwire.groups.effects import Effects, Ticket

REJOIN = "The member must abandon all its partitions and rejoin."


class Heartbeat:
    """One heartbeat, of a member that does not leave."""

    def __init__(
        self,
        decision: Decision,
        request: ConsumerGroupHeartbeatRequest,
        caller: ConsumerCaller,
        new_member_id: str,
    ) -> None:
        """`new_member_id` is used where the member has none yet."""
        self._decision = decision
        self._group = decision.group
        self._request = request
        self._caller = caller
        self._member_id = request.member_id or new_member_id
        self._replaced: str | None = None
        """The static member whose place this one takes."""

    def decide(self, ticket: Ticket) -> Effects:
        known = self._refused_when_full() or self._known()
        outcome = known if isinstance(known, Refusal) else self._beat(known)
        if isinstance(outcome, Refusal):
            return Effects.reply(ticket, outcome.response())
        self._decision.effects.replies.append((ticket, outcome))
        return self._decision.effects

    # -- who is it?

    def _refused_when_full(self) -> Refusal | None:
        group, most = self._group, self._decision.limits.group_consumer_max_size
        if len(group.members) < most or self._request.member_id in group.members:
            return None
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )

    def _known(self) -> ConsumerMember | Refusal:
        if self._request.instance_id is not None:
            return self._static(self._request.instance_id)
        member = self._group.members.get(self._member_id)
        if member is not None:
            return self._fenced(member) or member
        if self._request.member_epoch == JOIN_EPOCH:
            self._decision.note(f"member {self._member_id} joins")
            return ConsumerMember(self._member_id)
        return unknown_member(self._member_id, self._group.group_id)

    def _static(self, instance_id: str) -> ConsumerMember | Refusal:
        member = self._group.static_member(instance_id)
        if self._request.member_epoch == JOIN_EPOCH:
            return self._static_joins(instance_id, member)
        return check_static(member, instance_id, self._member_id) or self._held_by(member)

    def _held_by(self, member: ConsumerMember | None) -> ConsumerMember | Refusal:
        assert member is not None, "it was found to be a member"
        return self._fenced(member) or member

    def _static_joins(
        self, instance_id: str, holder: ConsumerMember | None
    ) -> ConsumerMember | Refusal:
        if holder is None:
            self._decision.note(f"member {self._member_id} joins as {instance_id}")
            return self._group.members.get(self._member_id) or ConsumerMember(self._member_id)
        if holder.epoch != LEAVE_FOR_A_WHILE_EPOCH:
            return Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {self._member_id} with instance id {instance_id} cannot join the "
                f"group because the instance id is owned by {holder.member_id} member.",
            )
        return self._take_the_place_of(holder)

    def _take_the_place_of(self, holder: ConsumerMember) -> ConsumerMember:
        member = replace(holder, member_id=self._member_id, epoch=0, previous_epoch=0)
        decision, group_id = self._decision, self._group.group_id
        decision.note(f"member {self._member_id} comes back as {holder.instance_id}")
        decision.forget_member(holder.member_id)
        decision.append(
            member.to_metadata(group_id),
            target.record(group_id, member.member_id, self._group.target.get(holder.member_id, {})),
            member.to_assignment(group_id),
        )
        self._replaced = holder.member_id
        return member

    def _fenced(self, member: ConsumerMember) -> Refusal | None:
        """Whether the member's word is not of its epoch."""
        received = self._request.member_epoch
        if received in (JOIN_EPOCH, member.epoch):
            return None
        if received < member.epoch:
            owned = self._request.topic_partitions
            if received == member.previous_epoch and _is_part_of(owned, member.assigned):
                return None  # the reply that told it of its epoch was lost
        than = "greater" if received > member.epoch else "smaller"
        return Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {than} member epoch ({received}) than the one known "
            f"by the group coordinator ({member.epoch}). {REJOIN}",
        )

    # -- what does it say?

    def _beat(self, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse | Refusal:
        caller = self._caller
        updated = member.told(self._request, caller.client_id, caller.client_host)
        if updated != member:
            self._decision.append(updated.to_metadata(self._group.group_id))
        changed = updated.topic_names != member.topic_names
        new_pattern = updated.pattern != member.pattern
        if new_pattern:
            refusal = self._change_pattern(member, updated)
            if refusal is not None:
                return refusal
        resolved = not updated.pattern or updated.pattern in self._group.patterns
        refresh_when_due(self._decision, member, updated, caller.may_describe)
        epoch = self._epoch(updated, begin=changed or (new_pattern and resolved))
        reconciled = self._reconcile(updated, self._target(updated, epoch), changed or new_pattern)
        if reconciled is None:
            return Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The consumer group member is in a unknown state. {REJOIN}",
            )
        self._decision.expect_heartbeat(self._member_id)
        return self._response(member, reconciled)

    def _change_pattern(self, member: ConsumerMember, updated: ConsumerMember) -> Refusal | None:
        """Who was the last of a pattern takes it along."""
        group, new = self._group, updated.pattern
        if new and not group.subscribers_of(new):
            refusal = _refused_pattern(new)
            if refusal is not None:
                return refusal
        if member.pattern and group.subscribers_of(member.pattern) == 1:
            self._decision.append(pattern_tombstone(group.group_id, member.pattern))
        return None

    # -- what follows?

    def _members(self, updated: ConsumerMember) -> list[ConsumerMember]:
        """As they will be."""
        members = dict(self._group.members)
        if self._replaced is not None:
            members.pop(self._replaced, None)
        members[updated.member_id] = updated
        return list(members.values())

    def _epoch(self, updated: ConsumerMember, *, begin: bool) -> int:
        """The group's epoch, the next one where topics are others than they were."""
        group, decision = self._group, self._decision
        names = group.topic_names_of(self._members(updated)) if begin else group.topic_names
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        epoch = decision.next_epoch(metadata_hash)
        if group.has_partition_metadata:
            decision.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def _target(self, updated: ConsumerMember, epoch: int) -> Target:
        """What the member is to have, computed for everybody if it is time."""
        group, decision = self._group, self._decision
        settings = decision.surroundings.settings(group.group_id)
        interval_ms, now_ms = settings.assignment_interval_ms, decision.now_ms
        due = target.may_be_computed(group.target_timestamp_ms, interval_ms, now_ms)
        if group.target_epoch >= epoch or not due:
            last = group.target_of(updated.member_id, updated.instance_id)
            return Target(group.target_epoch, last)
        assigned = target.compute(
            group,
            self._members(updated),
            decision.surroundings.image,
            settings.default_assignor,
        )
        for member_id, assignment in assigned.items():
            if not target.is_same(group.target.get(member_id, {}), assignment):
                decision.append(target.record(group.group_id, member_id, assignment))
        decision.append(target.epoch_record(group.group_id, epoch, now_ms))
        return Target(epoch, assigned[updated.member_id])

    def _reconcile(
        self, updated: ConsumerMember, goal: Target, subscription_changed: bool
    ) -> ConsumerMember | None:
        if not subscription_changed and updated.reconciled_to(goal.epoch):
            return updated
        group, decision = self._group, self._decision
        names = group.topic_names_by(updated)
        topic_ids = target.topic_ids(names, decision.surroundings.image)
        owned = self._request.topic_partitions
        step = Reconciliation(updated, goal, topic_ids, owned, group.is_held)
        reconciled = step.step(subscription_changed=subscription_changed)
        if reconciled is not None and reconciled != updated:
            decision.append(reconciled.to_assignment(group.group_id))
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
                decision.expect_revocation(reconciled)
            else:
                decision.end_revocation(reconciled.member_id)
        return reconciled

    def _response(
        self, member: ConsumerMember, reconciled: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """The assignment is told who joins, asks for it, or gets another than before."""
        request = self._request
        full = (
            request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
            and request.topic_partitions is not None
        )
        told = request.member_epoch == JOIN_EPOCH or full or reconciled.assigned != member.assigned
        settings = self._decision.surroundings.settings(self._group.group_id)
        return ConsumerGroupHeartbeatResponse(
            member_id=reconciled.member_id,
            member_epoch=reconciled.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=_told(reconciled.assigned) if told else None,
        )


def unknown_member(member_id: str, group_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def check_static(holder: ConsumerMember | None, instance_id: str, member_id: str) -> Refusal | None:
    """Whether a member is the holder of its instance id."""
    if holder is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        return Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return None


def _refused_pattern(pattern: str) -> Refusal | None:
    try:
        Pattern(pattern)
    except InvalidPattern as problem:
        return Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}.",
        )
    return None


def _is_part_of(owned: Owned, assigned: Held) -> bool:
    """Whether it says what it owns, and has been given all of that."""
    if owned is None:
        return False
    return all(
        partition in assigned.get(topic.topic_id, ())
        for topic in owned
        for partition in topic.partitions
    )


def _told(assigned: Held) -> ToldAssignment:
    return ToldAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
