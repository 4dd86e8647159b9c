"""How a member gets from the partitions that it has to those of the target assignment.

It gives up first what it is not to have: until it says that it does not own that any more it stays
in its epoch (UNREVOKED_PARTITIONS).  Then it is in the target's epoch, with all of the target that
nobody else holds; for the rest it waits (UNRELEASED_PARTITIONS).  So no partition has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kwire.codecs.messages.consumer_group_heartbeat import TopicPartitions
from kwire.groups.consumer.assignors.spec import Assignment
from kwire.groups.consumer.member import NOTHING_HELD, ConsumerMember, Held, MemberState

Owned = Sequence[TopicPartitions] | None
"""What a member says it owns; None: nothing has changed since it said so last."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a member is to have, since which epoch."""

    epoch: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One heartbeat's step of one member."""

    member: ConsumerMember
    target: Target
    topic_ids: Mapping[bytes, None]
    """Of the topics that it is subscribed to."""
    owned: Owned
    is_held: Callable[[bytes, int], bool]
    """Whether any member holds a partition."""

    def step(self, *, subscription_changed: bool) -> ConsumerMember | None:
        """The member as it is next; None: it must let go of everything and join anew."""
        member = self.member
        match member.state:
            case MemberState.STABLE if member.epoch == self.target.epoch:
                return self._without_unsubscribed() if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._owns_any(member.revoking):
                return self._without_unsubscribed() if subscription_changed else member
            case MemberState.UNKNOWN if self.owned is None or self.owned:
                return None
        return self._next()

    def _owns_any(self, revoked: Held) -> bool:
        """Who does not say what it owns may own it still."""
        if self.owned is None:
            return True
        return any(
            partition in revoked.get(topic.topic_id, ())
            for topic in self.owned
            for partition in topic.partitions
        )

    def _without_unsubscribed(self) -> ConsumerMember:
        """Only topics that it has unsubscribed from are taken away, at once."""
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
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        return replace(member, previous_epoch=member.epoch, assigned=assigned)

    def _next(self) -> ConsumerMember:
        kept, revoked, free, waiting = self._sorted_out()
        if revoked and self._owns_any(revoked):
            return self._at(self.member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        for topic_id, partitions in free.items():
            given = dict.fromkeys(partitions, self.target.epoch)
            kept[topic_id] = {**kept.get(topic_id, {}), **given}
        state = MemberState.UNRELEASED_PARTITIONS if waiting else MemberState.STABLE
        return self._at(self.target.epoch, state, kept, NOTHING_HELD)

    def _sorted_out(
        self,
    ) -> tuple[dict[bytes, Mapping[int, int]], Held, dict[bytes, list[int]], bool]:
        """What it keeps, gives up and gets, and whether it waits for more."""
        kept: dict[bytes, Mapping[int, int]] = {}
        revoked: dict[bytes, Mapping[int, int]] = {}
        free: dict[bytes, list[int]] = {}
        waiting = False
        assigned = self.member.assigned
        for topic_id in {**self.target.assignment, **assigned}:
            wanted = self._wanted(topic_id)
            has = assigned.get(topic_id, {})
            keeps = {p: epoch for p, epoch in has.items() if p in wanted}
            gives = {p: epoch for p, epoch in has.items() if p not in wanted}
            missing = [p for p in sorted(wanted) if p not in keeps]
            gets = [p for p in missing if not self._is_unreleased(topic_id, p)]
            waiting = waiting or len(gets) < len(missing)
            for place, what in ((kept, keeps), (revoked, gives)):
                if what:
                    place[topic_id] = what
            if gets:
                free[topic_id] = gets
        return kept, revoked, free, waiting

    def _wanted(self, topic_id: bytes) -> frozenset[int]:
        if topic_id not in self.topic_ids:
            return frozenset()
        return frozenset(self.target.assignment.get(topic_id, ()))

    def _is_unreleased(self, topic_id: bytes, partition: int) -> bool:
        """What the member itself is giving up it may have at once."""
        if partition in self.member.revoking.get(topic_id, ()):
            return False
        return self.is_held(topic_id, partition)

    def _at(self, epoch: int, state: MemberState, assigned: Held, revoking: Held) -> ConsumerMember:
        return replace(
            self.member,
            epoch=epoch,
            previous_epoch=self.member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )
