"""ConsumerGroupHeartbeat: a member joins, subscribes, reports its partitions and gets new ones.

- A heartbeat with epoch 0 joins.  Any other must have the member's epoch, or the previous epoch if
  the last response was lost.
- A change of the subscription begins the group's next epoch.
- The first heartbeat after that computes the target assignment.
- Each heartbeat moves its member one step towards the target.
- The topics of a new pattern are looked up after the response, so the member gets them later.
"""

from __future__ import annotations

from kwire.cluster.metadata.refusal import Refusal
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
from kwire.groups.assigned.heartbeat import REJOIN
from kwire.groups.assigned.member import (
    JOIN_EPOCH,
    NO_REBALANCE_TIMEOUT,
    MemberState,
)
from kwire.groups.assigned.static_members import StaticHeartbeat
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import AssignedPartitions, ConsumerMember
from kwire.groups.consumer.patterns import refresh_when_due
from kwire.groups.consumer.records import RegularExpression


class ConsumerHeartbeat(StaticHeartbeat[ConsumerGroupHeartbeatRequest, ConsumerMember]):
    """The decision about one heartbeat of a member that does not leave."""

    group: ConsumerGroup
    decision: ConsumerDecision

    def decide(self) -> ConsumerGroupHeartbeatResponse:
        """Return the response; the decision has the other effects.  Raises Refusal."""
        request = self.request
        if request.instance_id not in self.group.static_members:
            self.check_room(self.decision.limits.group_consumer_max_size, request.member_id)
        member = self.find_or_create_any(request.instance_id)
        if self._is_quiet(member):
            self.decision.expect_heartbeat(member)
            return self._answer(member, with_assignment=False)
        return self._decide_in_full(member)

    # -- identify the member

    def is_replaceable(self, holder: ConsumerMember) -> bool:
        """A member of the classic protocol is replaced without having left."""
        return holder.classic is not None

    def owns_no_more(self, member: ConsumerMember) -> bool:
        """Whether the request lists owned partitions, and the member has all of them."""
        owned, assigned = self.request.topic_partitions, member.assigned
        return owned is not None and all(
            partition in assigned.get(topic.topic_id, ())
            for topic in owned
            for partition in topic.partitions
        )

    # -- decide

    def _is_quiet(self, member: ConsumerMember) -> bool:
        """Whether the heartbeat changes nothing and needs no assignment: nearly all are like that.

        `_decide_in_full` would give the same response in twice the time.
        """
        group, caller = self.group, self.caller
        return (
            asks_nothing(self.request, group, member)
            and member.client_id == caller.client_id
            and member.client_host == caller.client_host
            and group.metadata_hash == self.decision.metadata_hash(group.topic_names)
        )

    def _decide_in_full(self, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        """Update the member, compute the target if it is due, and move the member one step.

        Raises Refusal if the member must give up everything and rejoin.
        """
        decision, group = self.decision, self.group
        updated = member.updated_by(self.request, self.caller)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        changed = updated.topic_names != member.topic_names
        new_pattern = updated.pattern != member.pattern
        if new_pattern:
            self._change_pattern(member, updated)
        resolved = not updated.pattern or updated.pattern in group.patterns
        refresh_when_due(decision, member, updated, self.caller.may_describe)
        epoch = decision.epoch(
            updated,
            begin=changed or (new_pattern and resolved) or decision.changes_assignor(updated),
        )
        reconciled = decision.reconcile(
            updated,
            decision.target(updated, epoch),
            self.request.topic_partitions,
            subscription_changed=changed or new_pattern,
        )
        if reconciled is None:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The consumer group member is in a unknown state. {REJOIN}",
            )
        if member.classic is not None:
            decision.cancel_timers(member.member_id)
        decision.expect_heartbeat(reconciled)
        return self._response(member, reconciled)

    def _change_pattern(self, member: ConsumerMember, updated: ConsumerMember) -> None:
        """Check a new pattern, and delete the member's old one if no other member has it."""
        group, new = self.group, updated.pattern
        if new and not group.subscribers_of(new):
            _check_pattern(new)
        if member.pattern and group.subscribers_of(member.pattern) == 1:
            self.decision.append(RegularExpression.tombstone(group.group_id, member.pattern))

    def _response(
        self, member: ConsumerMember, reconciled: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the response; it has the assignment if the member needs it.

        The member needs it if it joins, sent all its fields, or has a new assignment.
        """
        request = self.request
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
        """Return the response with the member's epoch, and its assignment if it needs it."""
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.decision.settings.heartbeat_interval_ms,
            assignment=_assignment_of(member.assigned) if with_assignment else None,
        )


def asks_nothing(
    request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup, member: ConsumerMember
) -> bool:
    """Whether a heartbeat of `member` reports nothing, and the member has all of its target.

    Such a heartbeat still changes the group if its client is another one than before, or if a topic
    that the group subscribes to has changed.
    """
    return (
        request.member_epoch == member.epoch == group.epoch == group.target_epoch
        and member.state is MemberState.STABLE
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT
        and request.server_assignor is None
        and request.rack_id is None
        and member.classic is None
        and not group.pattern_members
    )


def _check_pattern(pattern: str) -> None:
    """Raise Refusal if a regular expression is invalid."""
    try:
        RegexPattern(pattern)
    except InvalidRegex as problem:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}.",
        ) from None


def _assignment_of(assigned: AssignedPartitions) -> ResponseAssignment:
    """Return the member's partitions as the response has them, sorted by index."""
    return ResponseAssignment(
        [TopicPartitions(topic_id, sorted(these)) for topic_id, these in assigned.items()]
    )
