"""A decision about one consumer group, while it is made.

It is about a request of a member of either protocol, or a timer.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.groups.assigned.static_members import StaticDecision
from kwire.groups.assigned.target import MemberTarget, is_same, topic_ids
from kwire.groups.assignment import NOTHING, Assignment
from kwire.groups.consumer import target
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.reconciliation import ConsumerReconciliation, OwnedPartitions
from kwire.groups.consumer.records import ROLES, PartitionMetadata
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer
from kwire.groups.surroundings import ConsumerSettings


class ConsumerDecision(StaticDecision[ConsumerMember, Assignment]):
    """It collects records and timers, and changes nothing."""

    ROLES = ROLES
    settings: ConsumerSettings
    group: ConsumerGroup

    def read_settings(self) -> ConsumerSettings:
        return self.surroundings.settings(self.group_id)

    # -- timers

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        """Restart the session; a member of the classic protocol has a timeout of its own."""
        if member.classic is None:
            timeout_ms = self.settings.session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        self.begin_session(member.member_id, timeout_ms)

    def await_revocation(self, member: ConsumerMember) -> None:
        if member.classic is None:  # members of the classic protocol have timers for join and sync
            super().await_revocation(member)

    def cancel_timers(self, member_id: str) -> None:
        self.end_session(member_id)
        self.end_revocation(member_id)
        self.cancel_timer(ClassicJoinTimer(self.group_id, member_id).key)
        self.cancel_timer(ClassicSyncTimer(self.group_id, member_id).key)

    # -- the epoch

    def changes_assignor(self, updated: ConsumerMember) -> bool:
        """Whether the request changes the assignor that most members prefer."""
        default = self.settings.default_assignor
        before = target.preferred_assignor(self.group.members.values()) or default
        members = self.members_with(updated).values()
        return before != (target.preferred_assignor(members) or default)

    def epoch(self, updated: ConsumerMember, *, begin: bool) -> int:
        """The group's epoch after the request: the next one if the subscribed topics changed."""
        group = self.group
        names = group.topic_names
        if begin:
            names = group.topic_names_of(self.members_with(updated).values())
        metadata_hash = self.metadata_hash(names)
        if not begin and metadata_hash == group.metadata_hash:
            return group.epoch
        epoch = self.next_epoch(metadata_hash)
        if group.has_partition_metadata:
            self.append(PartitionMetadata.tombstone(self.group_id))
        return epoch

    # -- the target assignment, and the member's next step towards it

    def assign(self, members: Mapping[str, ConsumerMember]) -> Mapping[str, Assignment]:
        image, default_assignor = self.surroundings.image, self.settings.default_assignor
        return target.compute(self.group, members.values(), image, default_assignor)

    @staticmethod
    def is_unchanged(before: Assignment | None, after: Assignment) -> bool:
        return is_same(before or NOTHING, after)

    target_value = staticmethod(target.value)

    def reconcile(
        self,
        updated: ConsumerMember,
        goal: MemberTarget[Assignment],
        owned: OwnedPartitions,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember | None:
        """The member after its next step, or None if it must give up everything and rejoin."""
        if not subscription_changed and updated.reconciled_to(goal.epoch):
            return updated
        group = self.group
        subscribed = topic_ids(group.topic_names_by(updated), self.surroundings.image)
        reconciled = ConsumerReconciliation(
            updated, goal, subscribed, owned, group.is_held, subscription_changed
        ).step()
        if reconciled is not None and reconciled != updated:
            self.append(reconciled.to_assignment(self.group_id))
            self.await_revocation(reconciled)
        return reconciled
