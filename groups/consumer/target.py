"""The target assignment: who is to have which partitions as of the group's epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kwire.groups.assigning import topic_ids
from kwire.groups.consumer.assignors import range as range_assignor
from kwire.groups.consumer.assignors import uniform
from kwire.groups.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec, in_java_order
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import TargetAssignment, TargetEpoch
from kwire.groups.java import HashTable, string_hash

ASSIGNORS = {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}


def compute(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    image: ClusterImage,
    default_assignor: str,
) -> dict[str, Assignment]:
    """By member id, in the order in which Apache Kafka writes them; `members`: as they will be."""
    specs = in_java_order(_spec(group, member, image) for member in members)
    counts = {
        topic_id: len(image.topics[image.names_by_id[topic_id]].partitions)
        for spec in specs
        for topic_id in spec.topic_ids
    }
    name = preferred_assignor(members) or default_assignor
    spec = GroupSpec(specs, _is_homogeneous(members), counts)
    assigned = ASSIGNORS[name](spec)
    return {each.member_id: assigned.get(each.member_id, {}) for each in specs}


def _spec(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> MemberSpec:
    return MemberSpec(
        member.member_id,
        member.instance_id,
        topic_ids(group.topic_names_by(member), image),
        group.target_of(member.member_id, member.instance_id),
    )


def _is_homogeneous(members: Collection[ConsumerMember]) -> bool:
    """Whether all are subscribed to the same, by names alone or by one pattern alone."""
    patterns = {member.pattern for member in members if member.pattern}
    if not patterns:
        return len({member.topic_names for member in members}) <= 1
    if len(patterns) > 1 or not all(member.pattern for member in members):
        return False
    return not any(member.topic_names for member in members)


def preferred_assignor(members: Iterable[ConsumerMember]) -> str | None:
    """The one that most members ask for; of several the first in Java's HashMap."""
    votes: dict[str, int] = {}
    for member in members:
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(HashTable(string_hash, votes), key=lambda name: votes[name], default=None)


def record(group_id: str, member_id: str, assignment: Assignment) -> TargetAssignment:
    return TargetAssignment(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            [TopicPartition(topic_id, list(these)) for topic_id, these in assignment.items()]
        ),
    )


def epoch_record(group_id: str, epoch: int, now_ms: int) -> TargetEpoch:
    return TargetEpoch(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms),
    )
