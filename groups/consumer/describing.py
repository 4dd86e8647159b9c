"""ConsumerGroupDescribe: the description of a group and its members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.consumer_group_describe import (
    Assignment as DescribedAssignment,
)
from kwire.codecs.messages.consumer_group_describe import (
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.groups.consumer import target
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(group: ConsumerGroup, image: ClusterImage, default_assignor: str) -> DescribedGroup:
    """The description of a group, without topics that were deleted."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=target.preferred_assignor(group.members.values()) or default_assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> Member:
    """Return the description of one member.

    Partitions that the member still has to give up count as its current assignment.
    """
    current: dict[bytes, list[int]] = {}
    for held in (member.assigned, member.revoking):
        for topic_id, partitions in held.items():
            current.setdefault(topic_id, []).extend(sorted(partitions))
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(current, image),
        target_assignment=_assignment(group.target_of(member.member_id), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(
    assignment: Mapping[bytes, Iterable[int]], image: ClusterImage
) -> DescribedAssignment:
    """Return an assignment with the names of its topics, without topics that were deleted."""
    names = ((topic_id, image.names_by_id.get(topic_id)) for topic_id in assignment)
    return DescribedAssignment(
        [
            TopicPartitions(topic_id, name, list(assignment[topic_id]))
            for topic_id, name in names
            if name is not None
        ]
    )
