"""The effects of a member's heartbeat or join on its consumer group, for both protocols.

They are: the group's next epoch, if it subscribes to other topics than before; a new target
assignment, if one is due; and the member's next step towards its target.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.groups.assigning import is_same, may_be_computed, topic_ids
from kwire.groups.assignment import as_read
from kwire.groups.consumer import target
from kwire.groups.consumer.decision import ConsumerDecision, partition_metadata_tombstone
from kwire.groups.consumer.member import ConsumerMember, ConsumerMemberState
from kwire.groups.consumer.reconciliation import (
    ConsumerReconciliation,
    ConsumerTarget,
    OwnedPartitions,
)


class ConsumerUpdate:
    """The decision about one request of one member."""

    def __init__(self, decision: ConsumerDecision) -> None:
        self.decision = decision
        self.group = decision.group
        self.replaced: str | None = None
        """Id of the static member that this member replaces."""

    def replace_static_member(self, holder: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member that comes back with another member id.  Returns the new one."""
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        decision, group_id = self.decision, self.group.group_id
        decision.note(f"member {member_id} comes back as {holder.instance_id}")
        decision.forget_member(holder.member_id)
        decision.append(
            member.to_metadata(group_id),
            target.record(group_id, member_id, self.group.target.get(holder.member_id, {})),
            member.to_assignment(group_id),
        )
        self.replaced = holder.member_id
        return member

    def members(self, updated: ConsumerMember) -> list[ConsumerMember]:
        """The group's members after the request."""
        members = dict(self.group.members)
        if self.replaced is not None:
            del members[self.replaced]
        members[updated.member_id] = updated
        return list(members.values())

    def epoch(self, updated: ConsumerMember, *, begin: bool) -> int:
        """The group's epoch after the request: the next one if the subscribed topics changed."""
        group, decision = self.group, self.decision
        names = group.topic_names_of(self.members(updated)) if begin else group.topic_names
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        epoch = decision.next_epoch(metadata_hash)
        if group.has_partition_metadata:
            decision.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def last_target(self, updated: ConsumerMember) -> ConsumerTarget:
        """The member's target that was computed last."""
        group = self.group
        last = group.target_of(updated.member_id, updated.instance_id)
        return ConsumerTarget(group.target_epoch, last)

    def target(self, updated: ConsumerMember, epoch: int) -> ConsumerTarget:
        """The member's target; a new target assignment of the group is computed if it is due."""
        group, decision = self.group, self.decision
        settings = decision.surroundings.settings(group.group_id)
        interval_ms, now_ms = settings.assignment_interval_ms, decision.now_ms
        due = may_be_computed(group.target_timestamp_ms, interval_ms, now_ms)
        if group.target_epoch >= epoch or not due:
            return self.last_target(updated)
        assigned = target.compute(
            group,
            self.members(updated),
            decision.surroundings.image,
            settings.default_assignor,
        )
        for member_id, assignment in assigned.items():
            if not is_same(group.target.get(member_id, {}), assignment):
                decision.append(target.record(group.group_id, member_id, assignment))
        decision.append(target.epoch_record(group.group_id, epoch, now_ms))
        return ConsumerTarget(epoch, as_read(assigned[updated.member_id].items()))

    def reconcile(
        self,
        updated: ConsumerMember,
        goal: ConsumerTarget,
        owned: OwnedPartitions,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember | None:
        """The member after its next step, or None if it must give up everything and rejoin."""
        if not subscription_changed and updated.reconciled_to(goal.epoch):
            return updated
        group, decision = self.group, self.decision
        names = group.topic_names_by(updated)
        subscribed = topic_ids(names, decision.surroundings.image)
        step = ConsumerReconciliation(updated, goal, subscribed, owned, group.is_held)
        reconciled = step.step(subscription_changed=subscription_changed)
        if reconciled is not None and reconciled != updated:
            decision.append(reconciled.to_assignment(group.group_id))
            if reconciled.classic is None:
                self._await_revocation(reconciled)
        return reconciled

    def _await_revocation(self, member: ConsumerMember) -> None:
        """Set or cancel the revocation timer.  Classic members have timers for join and sync."""
        if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
            self.decision.expect_revocation(member)
        else:
            self.decision.end_revocation(member.member_id)
