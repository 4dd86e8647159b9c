"""Computes the target assignment of a consumer group for its epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.groups.assigned.target import topic_ids
from kwire.groups.assignment import Assignment, MemberSpec, in_java_order
from kwire.groups.consumer.assignors import range as range_assignor
from kwire.groups.consumer.assignors import uniform
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.java import HashTable, string_hash

ASSIGNORS = {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}


def compute(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    image: ClusterImage,
    default_assignor: str,
) -> dict[str, Assignment]:
    """The target of each member id, in the order in which Apache Kafka writes the records.

    `members` are the members after the current request.
    """
    specs = in_java_order(_spec(group, member, image) for member in members)
    counts = {
        topic_id: len(image.topics[image.names_by_id[topic_id]].partitions)
        for spec in specs
        for topic_id in spec.topic_ids
    }
    name = preferred_assignor(members) or default_assignor
    spec = ConsumerGroupSpec(specs, _is_homogeneous(members), counts)
    assigned = ASSIGNORS[name](spec)
    return {member.member_id: assigned.get(member.member_id, {}) for member in specs}


def _spec(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> MemberSpec:
    """Return a member as the assignors see it; topics that do not exist are left out."""
    return MemberSpec(
        member.member_id,
        member.instance_id,
        topic_ids(group.topic_names_by(member), image),
        group.static_target_of(member.member_id, member.instance_id),
    )


def _is_homogeneous(members: Collection[ConsumerMember]) -> bool:
    """Whether all members have the same subscription: only names, or only one pattern."""
    patterns = {member.pattern for member in members if member.pattern}
    if not patterns:
        return len({member.topic_names for member in members}) <= 1
    if len(patterns) > 1 or not all(member.pattern for member in members):
        return False
    return not any(member.topic_names for member in members)


def preferred_assignor(members: Iterable[ConsumerMember]) -> str | None:
    """The assignor that most members ask for; of equal ones the first in Java's HashMap."""
    votes: dict[str, int] = {}
    for member in members:
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(HashTable(string_hash, votes), key=lambda name: votes[name], default=None)


def value(target: Assignment) -> ConsumerGroupTargetAssignmentMemberValue:
    """The value of the record of one member's target."""
    return ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, list(these)) for topic_id, these in target.items()]
    )
