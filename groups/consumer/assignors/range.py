"""The assignor `range`: each subscriber gets a range of partitions of each topic.

If all topics have the same partition count and all members the same topics, a member gets the same
partitions of each topic, which is what joins need.  Members are ordered by instance id, then those
without one by member id, so a static member that comes back gets the same partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.groups.assignment import Assignment, MemberSpec
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec
from kwire.groups.java import utf16

NAME = "range"


@dataclass(slots=True)
class _Topic:
    """The state of the distribution of one topic."""

    partitions: int
    quota: int
    with_one_more: int
    """Number of members that still get one partition more than the quota."""
    next_partition: int = 0

    def take(self) -> tuple[int, ...]:
        """Return the partitions of the next subscriber: a range of the quota, perhaps one more.

        It is empty if no partition is left.
        """
        start = self.next_partition
        if start >= self.partitions:
            return ()
        end = min(start + self.quota, self.partitions)
        if self.with_one_more > 0:
            end += 1
            self.with_one_more -= 1
        self.next_partition = end
        return tuple(range(start, end))


def assign(spec: ConsumerGroupSpec) -> dict[str, Assignment]:
    """Member id -> assignment."""
    members = sorted(spec.members, key=_sort_key)
    subscribers: dict[bytes, int] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(count, *divmod(count, subscribers[topic_id]))
        for topic_id, count in spec.partition_counts.items()
        if topic_id in subscribers
    }
    assigned: dict[str, Assignment] = {}
    for member in members:
        taken = ((topic_id, topics[topic_id].take()) for topic_id in member.topic_ids)
        assigned[member.member_id] = {topic_id: run for topic_id, run in taken if run}
    return assigned


def _sort_key(member: MemberSpec) -> tuple[bool, bytes]:
    """Static members first; strings compare by UTF-16 units, as in Java."""
    static = member.instance_id is not None
    name = member.instance_id if member.instance_id is not None else member.member_id
    return not static, utf16(name)
