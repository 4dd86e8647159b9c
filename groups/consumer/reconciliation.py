"""Reconciliation: moves a member from its current partitions to its target, step by step.

1. The member gives up the partitions that are not in its target.  It stays in its epoch
   (UNREVOKED_PARTITIONS) until a request shows that it does not own them any more.
2. It moves to the target's epoch and gets the partitions of its target that no other member holds.
   It waits for the others (UNRELEASED_PARTITIONS).

So no partition ever has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kwire.codecs.messages.consumer_group_heartbeat import TopicPartitions
from kwire.groups.assignment import Assignment
from kwire.groups.consumer.member import (
    NOTHING_HELD,
    AssignedPartitions,
    ConsumerMember,
    ConsumerMemberState,
)

OwnedPartitions = Sequence[TopicPartitions] | None
"""The partitions that a request lists as owned; None: unchanged since the last list."""


@dataclass(frozen=True, slots=True)
class ConsumerTarget:
    """One member's target and the epoch that it was computed for."""

    epoch: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class ConsumerReconciliation:
    """The step of one member with one request."""

    member: ConsumerMember
    target: ConsumerTarget
    topic_ids: Mapping[bytes, None]
    """Ids of the topics that the member subscribes to, as keys."""
    owned: OwnedPartitions
    is_held: Callable[[bytes, int], bool]
    """Whether any member holds a partition."""

    def step(self, *, subscription_changed: bool) -> ConsumerMember | None:
        """The member after the step, or None if it must give up everything and rejoin."""
        member = self.member
        match member.state:
            case ConsumerMemberState.STABLE if member.epoch == self.target.epoch:
                return self._without_unsubscribed() if subscription_changed else member
            case ConsumerMemberState.UNREVOKED_PARTITIONS if self._owns_any(member.revoking):
                return self._without_unsubscribed() if subscription_changed else member
            case ConsumerMemberState.UNKNOWN if self.owned is None or self.owned:
                return None
        return self._next()

    def _owns_any(self, revoked: AssignedPartitions) -> bool:
        """Whether the member may still own some of these; True if the request has no list."""
        if self.owned is None:
            return True
        return any(
            partition in revoked.get(topic.topic_id, ())
            for topic in self.owned
            for partition in topic.partitions
        )

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
        if revoking and self._owns_any(revoking):
            return replace(
                member,
                state=ConsumerMemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        return replace(member, previous_epoch=member.epoch, assigned=assigned)

    def _next(self) -> ConsumerMember:
        kept, revoked, free, waiting = self._compare_with_target()
        if revoked and self._owns_any(revoked):
            return self._at(
                self.member.epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, kept, revoked
            )
        for topic_id, partitions in free.items():
            given = dict.fromkeys(partitions, self.target.epoch)
            kept[topic_id] = {**kept.get(topic_id, {}), **given}
        state = ConsumerMemberState.UNRELEASED_PARTITIONS if waiting else ConsumerMemberState.STABLE
        return self._at(self.target.epoch, state, kept, NOTHING_HELD)

    def _compare_with_target(
        self,
    ) -> tuple[dict[bytes, Mapping[int, int]], AssignedPartitions, dict[bytes, list[int]], bool]:
        """Partitions to keep, to revoke and to add, and whether others are not released yet."""
        kept: dict[bytes, Mapping[int, int]] = {}
        revoked: dict[bytes, Mapping[int, int]] = {}
        free: dict[bytes, list[int]] = {}
        waiting = False
        assigned = self.member.assigned
        for topic_id in {**self.target.assignment, **assigned}:
            target = self._target_of(topic_id)
            current = assigned.get(topic_id, {})
            keeps = {p: epoch for p, epoch in current.items() if p in target}
            revokes = {p: epoch for p, epoch in current.items() if p not in target}
            missing = [p for p in sorted(target) if p not in keeps]
            adds = [p for p in missing if not self._is_unreleased(topic_id, p)]
            waiting = waiting or len(adds) < len(missing)
            for topics, partitions in ((kept, keeps), (revoked, revokes)):
                if partitions:
                    topics[topic_id] = partitions
            if adds:
                free[topic_id] = adds
        return kept, revoked, free, waiting

    def _target_of(self, topic_id: bytes) -> frozenset[int]:
        """The target's partitions of a topic; none if the member has unsubscribed from it."""
        if topic_id not in self.topic_ids:
            return frozenset()
        return frozenset(self.target.assignment.get(topic_id, ()))

    def _is_unreleased(self, topic_id: bytes, partition: int) -> bool:
        """Whether another member holds the partition.

        A partition that this member itself gives up can be assigned to it again at once.
        """
        if partition in self.member.revoking.get(topic_id, ()):
            return False
        return self.is_held(topic_id, partition)

    def _at(
        self,
        epoch: int,
        state: ConsumerMemberState,
        assigned: AssignedPartitions,
        revoking: AssignedPartitions,
    ) -> ConsumerMember:
        return replace(
            self.member,
            epoch=epoch,
            previous_epoch=self.member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )
