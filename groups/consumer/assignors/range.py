"""The assignor `range`: of each topic a run of partitions for each subscriber.

Where all topics have as many partitions, and all members the same topics, a member has the same
partitions of each topic, which is what joins need.  Members stand in the order of their instance
ids, those without behind them by member id, so a static member that comes back finds its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.groups.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec
from kwire.groups.java import utf16

NAME = "range"


@dataclass(slots=True)
class _Topic:
    """How far a topic has been dealt out."""

    partitions: int
    quota: int
    with_one_more: int
    """To how many members one partition more than the quota is still to be given."""
    next_partition: int = 0

    def take(self) -> tuple[int, ...]:
        start = self.next_partition
        if start >= self.partitions:
            return ()
        end = min(start + self.quota, self.partitions)
        if self.with_one_more > 0:
            end += 1
            self.with_one_more -= 1
        self.next_partition = end
        return tuple(range(start, end))


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """By member id."""
    members = sorted(spec.members, key=_place)
    subscribers: dict[bytes, int] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(count, *divmod(count, subscribers[topic_id]))
        for topic_id, count in spec.partition_counts.items()
        if topic_id in subscribers
    }
    dealt: dict[str, Assignment] = {}
    for member in members:
        taken = ((topic_id, topics[topic_id].take()) for topic_id in member.topic_ids)
        dealt[member.member_id] = {topic_id: run for topic_id, run in taken if run}
    return dealt


def _place(member: MemberSpec) -> tuple[bool, bytes]:
    """Strings are compared as Java does, by their UTF-16 units."""
    static = member.instance_id is not None
    name = member.instance_id if member.instance_id is not None else member.member_id
    return not static, utf16(name)
