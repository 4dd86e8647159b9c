"""Computes the target assignment of a share group for its epoch."""

from __future__ import annotations

from collections.abc import Collection

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.coordinator.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.groups.assigned.target import topic_ids
from kwire.groups.assignment import Assignment, MemberSpec, in_java_order
from kwire.groups.share import assignor
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.member import ShareGroupMember


def compute(
    group: ShareGroup, members: Collection[ShareGroupMember], image: ClusterImage
) -> dict[str, Assignment]:
    """The target of each member id, in the order in which Apache Kafka writes the records.

    `members` are the members after the current request.  Only partitions whose state the share
    coordinator has initialized are assigned.
    """
    specs = in_java_order(_spec(group, member, image) for member in members)
    readable = {
        topic_id: _readable(group, topic_id, image) for spec in specs for topic_id in spec.topic_ids
    }
    homogeneous = len({member.topic_names for member in members}) <= 1
    assigned = assignor.assign(assignor.ShareSpec(specs, homogeneous, readable))
    return {member.member_id: assigned.get(member.member_id, {}) for member in specs}


def _spec(group: ShareGroup, member: ShareGroupMember, image: ClusterImage) -> MemberSpec:
    ids = topic_ids(member.topic_names, image)
    return MemberSpec(member.member_id, None, ids, group.target_of(member.member_id))


def _readable(group: ShareGroup, topic_id: bytes, image: ClusterImage) -> list[int]:
    """Return the partitions of a topic whose state the share coordinator has initialized."""
    count = len(image.topics[image.names_by_id[topic_id]].partitions)
    initialized = group.state_topics.initialized.of(topic_id)
    return [partition for partition in range(count) if partition in initialized]


def within(assignment: Assignment, names: Collection[str], image: ClusterImage) -> Assignment:
    """The part of an assignment whose topics exist and are in `names`."""
    return {
        topic_id: these
        for topic_id, these in assignment.items()
        if image.names_by_id.get(topic_id) in names
    }


def value(target: Assignment) -> ShareGroupTargetAssignmentMemberValue:
    """The value of the record of one member's target."""
    return ShareGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, list(these)) for topic_id, these in target.items()]
    )
