"""ShareGroupDescribe: the description of a group and its members."""

from __future__ import annotations

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.groups.share.assignor import NAME
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.member import ShareGroupMember


def described(group: ShareGroup, image: ClusterImage) -> DescribedGroup:
    """The description of a group, without topics that were deleted."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_member(member, image) for member in group.members.values()],
    )


def _member(member: ShareGroupMember, image: ClusterImage) -> Member:
    """Return the description of one member, without topics that were deleted."""
    names = ((topic_id, image.names_by_id.get(topic_id)) for topic_id in member.assigned)
    reads = [
        TopicPartitions(topic_id, name, sorted(member.assigned[topic_id]))
        for topic_id, name in names
        if name is not None
    ]
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(reads),
    )
