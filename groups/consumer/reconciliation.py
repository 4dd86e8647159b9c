"""Reconciliation of a consumer group's member (kwire.groups.assigned.reconciliation).

A change of the subscription is a step of its own: the member gives up the topics that it has
unsubscribed from at once, in whatever epoch it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kwire.codecs.messages.consumer_group_heartbeat import TopicPartitions
from kwire.groups.assigned.member import MemberState
from kwire.groups.assigned.reconciliation import NextStep, Reconciliation, difference
from kwire.groups.assignment import Assignment
from kwire.groups.consumer.member import AssignedPartitions, ConsumerMember

OwnedPartitions = Sequence[TopicPartitions] | None
"""The partitions that a request lists as owned; None: unchanged since the last list."""


@dataclass(frozen=True, slots=True)
class ConsumerReconciliation(Reconciliation[ConsumerMember, Assignment, AssignedPartitions]):
    """The step of one member with one request."""

    topic_ids: Mapping[bytes, None]
    """Ids of the topics that the member subscribes to, as keys."""
    owned: OwnedPartitions
    is_held: Callable[[bytes, int], bool]
    """Whether any member holds a partition."""
    subscription_changed: bool

    def compare(self) -> NextStep[AssignedPartitions]:
        """Return the next step towards the target, as far as the member subscribes to it."""
        target = {
            topic_id: frozenset(partitions) if topic_id in self.topic_ids else frozenset()
            for topic_id, partitions in self.target.assignment.items()
        }
        result = difference(self.member.assigned, target, self.target.epoch, self._is_unreleased)
        return NextStep(result.kept, result.revoked, result.given, result.is_waiting)

    def owns_any(self, revoked: AssignedPartitions) -> bool:
        """Return whether the member may still own one of the `revoked` partitions.

        True if the request does not list what the member owns.
        """
        if self.owned is None:
            return True
        return any(
            partition in revoked.get(topic.topic_id, ())
            for topic in self.owned
            for partition in topic.partitions
        )

    @property
    def owns_nothing(self) -> bool:
        return self.owned is not None and not self.owned

    def without_step(self) -> ConsumerMember:
        return self._without_unsubscribed() if self.subscription_changed else self.member

    def _without_unsubscribed(self) -> ConsumerMember:
        """The member without topics that it has unsubscribed from: these are revoked at once."""
        member = self.member
        gone = {t: held for t, held in member.assigned.items() if t not in self.topic_ids}
        if not gone and (self.topic_ids or member.revoking):
            return member
        assigned = {t: held for t, held in member.assigned.items() if t in self.topic_ids}
        revoking = dict(member.revoking)
        for topic_id, held in gone.items():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
        if revoking and self.owns_any(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        return replace(member, previous_epoch=member.epoch, assigned=assigned)

    def _is_unreleased(self, place: tuple[bytes, int]) -> bool:
        """Whether another member holds the partition.

        A partition that this member itself gives up can be assigned to it again at once.
        """
        topic_id, partition = place
        if partition in self.member.revoking.get(topic_id, ()):
            return False
        return self.is_held(topic_id, partition)
