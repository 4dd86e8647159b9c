"""What follows for a group and a member from what the member has said, whatever it speaks.

The group's next epoch, if it is subscribed to other topics than before; its target, computed anew
if it is time; and the member's own next step towards it.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.groups.assigning import is_same, may_be_computed, topic_ids
from kwire.groups.consumer import target
from kwire.groups.consumer.assignors.spec import as_read
from kwire.groups.consumer.decision import Decision, partition_metadata_tombstone
from kwire.groups.consumer.member import ConsumerMember, MemberState
from kwire.groups.consumer.reconciliation import Owned, Reconciliation, Target


class Update:
    """One request of one member on its way into a group."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.group = decision.group
        self.replaced: str | None = None
        """The static member whose place this one takes."""

    def take_the_place_of(self, holder: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member comes back by another member id."""
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
        """As they will be."""
        members = dict(self.group.members)
        if self.replaced is not None:
            del members[self.replaced]
        members[updated.member_id] = updated
        return list(members.values())

    def epoch(self, updated: ConsumerMember, *, begin: bool) -> int:
        """The group's epoch, the next one where topics are others than they were."""
        group, decision = self.group, self.decision
        names = group.topic_names_of(self.members(updated)) if begin else group.topic_names
        metadata_hash = decision.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        epoch = decision.next_epoch(metadata_hash)
        if group.has_partition_metadata:
            decision.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def last_target(self, updated: ConsumerMember) -> Target:
        group = self.group
        last = group.target_of(updated.member_id, updated.instance_id)
        return Target(group.target_epoch, last)

    def target(self, updated: ConsumerMember, epoch: int) -> Target:
        """What the member is to have, computed for everybody if it is time."""
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
        return Target(epoch, as_read(assigned[updated.member_id].items()))

    def reconcile(
        self, updated: ConsumerMember, goal: Target, owned: Owned, *, subscription_changed: bool
    ) -> ConsumerMember | None:
        """The member as it is next; None: it must let go of everything and join anew."""
        if not subscription_changed and updated.reconciled_to(goal.epoch):
            return updated
        group, decision = self.group, self.decision
        names = group.topic_names_by(updated)
        subscribed = topic_ids(names, decision.surroundings.image)
        step = Reconciliation(updated, goal, subscribed, owned, group.is_held)
        reconciled = step.step(subscription_changed=subscription_changed)
        if reconciled is not None and reconciled != updated:
            decision.append(reconciled.to_assignment(group.group_id))
            if reconciled.classic is None:
                self._await_revocation(reconciled)
        return reconciled

    def _await_revocation(self, member: ConsumerMember) -> None:
        """Of a member of the classic protocol other things are awaited: a join, a sync."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.decision.expect_revocation(member)
        else:
            self.decision.end_revocation(member.member_id)
