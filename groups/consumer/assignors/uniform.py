"""The assignor `uniform`: the same number of partitions for each member, with few moves.

If all members subscribe to the same topics, it revokes partitions from members with more than their
quota, and gives them to members with less.  `balanced` handles different subscriptions.
"""

from __future__ import annotations

from kwire.groups.assignment import Assignment, Draft, MemberSpec
from kwire.groups.consumer.assignors import balanced
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec
from kwire.groups.java import HashTable, uuid_hash

NAME = "uniform"


def assign(spec: ConsumerGroupSpec) -> dict[str, Assignment]:
    """Member id -> assignment; empty if no member subscribes to a topic."""
    if not spec.members:
        return {}
    return _Shares(spec).deal() if spec.homogeneous else balanced.assign(spec)


class _Shares:
    """The distribution of topics that all members subscribe to."""

    def __init__(self, spec: ConsumerGroupSpec) -> None:
        """Count the partitions, and compute each member's quota.

        The division leaves `_with_one_more` members that get one partition more than the quota.
        """
        self._members = spec.members
        topic_ids = HashTable.of_collection(uuid_hash, spec.members[0].topic_ids)
        self._counts = {topic_id: spec.partition_counts[topic_id] for topic_id in topic_ids}
        total = sum(self._counts.values())
        self._quota, self._with_one_more = divmod(total, len(self._members))
        self._free = self._assigned_to_nobody()
        self._drafts: dict[str, Draft] = {}
        self._unfilled: list[tuple[MemberSpec, int]] = []

    def _assigned_to_nobody(self) -> list[tuple[bytes, int]]:
        """Return the (topic id, partition) pairs that no member has in the last assignment."""
        assigned = {
            (topic_id, partition)
            for member in self._members
            for topic_id, partitions in member.assignment.items()
            for partition in partitions
        }
        return [
            (topic_id, partition)
            for topic_id, count in self._counts.items()
            for partition in range(count)
            if (topic_id, partition) not in assigned
        ]

    def deal(self) -> dict[str, Assignment]:
        """Return member id -> assignment; members that were not changed keep theirs as it was."""
        if not self._counts:
            return {}
        for position, member in enumerate(self._members):
            self._revoke(member, len(self._members) - position)
        self._fill()
        return {
            member.member_id: self._drafts[member.member_id].done()
            if member.member_id in self._drafts
            else member.assignment
            for member in self._members
        }

    def _draft(self, member: MemberSpec) -> Draft:
        """Return the changeable assignment of a member; the first call copies the last one."""
        draft = self._drafts.get(member.member_id)
        if draft is None:
            draft = self._drafts[member.member_id] = Draft(member.assignment)
        return draft

    def _revoke(self, member: MemberSpec, members_left: int) -> None:
        """Revoke the member's surplus, or note how many partitions it lacks.

        A member that lacks one partition beyond the quota leaves it to later members if possible:
        they may have that partition already.
        """
        has_one_more = self._with_one_more > 0
        room = self._quota + has_one_more
        for topic_id, partitions in member.assignment.items():
            if topic_id not in self._counts:
                self._draft(member).remove_topic(topic_id)
            elif len(partitions) <= room:
                room -= len(partitions)
            else:
                room = self._revoke_behind(member, topic_id, partitions, room)
        if room > 0 and has_one_more and members_left > self._with_one_more:
            room -= 1
            has_one_more = False
        if room > 0:
            self._unfilled.append((member, room))
        self._with_one_more -= has_one_more

    def _revoke_behind(
        self, member: MemberSpec, topic_id: bytes, partitions: tuple[int, ...], room: int
    ) -> int:
        """Keep the first `room` partitions of a topic and revoke the rest.  Returns room 0."""
        for partition in partitions[room:]:
            self._draft(member).remove(topic_id, partition)
            self._free.append((topic_id, partition))
        return 0

    def _fill(self) -> None:
        """Give the free partitions to the members that lack some, in their order."""
        free = iter(self._free)
        for member, room in self._unfilled:
            draft = self._draft(member)
            for _, (topic_id, partition) in zip(range(room), free, strict=False):
                draft.add(topic_id, partition)
