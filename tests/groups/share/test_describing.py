"""ShareGroupDescribe and ListGroups of a group, field by field."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.groups.share.group import ShareGroup
from tests.groups.share.simulation import GROUP_ID, Client, ShareSimulation


def test_members_and_what_they_read() -> None:
    simulation = ShareSimulation()
    topic_id = simulation.put_topic("t", 2)
    simulation.put_topic("u", 1)
    Client(simulation, "a", topics=["u", "t"]).beat()
    simulation.answer()
    simulation.heartbeat(
        member_id="b-0", member_epoch=0, rack_id="r", subscribed_topic_names=["t", "new"]
    )
    simulation.heartbeat(member_id="a-0", member_epoch=2)
    simulation.delete_topic("u")
    assert simulation.machine.share.describe(GROUP_ID) == DescribedGroup(
        group_id=GROUP_ID,
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="simple",
        members=[
            Member(
                member_id="a-0",
                member_epoch=3,
                client_id="client",
                client_host="/host",
                subscribed_topic_names=["t", "u"],
                assignment=Assignment([TopicPartitions(topic_id, "t", [1])]),
            ),
            Member(
                member_id="b-0",
                rack_id="r",
                member_epoch=3,
                client_id="client",
                client_host="/host",
                subscribed_topic_names=["new", "t"],
                assignment=Assignment([TopicPartitions(topic_id, "t", [0])]),
            ),
        ],
    )
    group = simulation.group
    assert isinstance(group, ShareGroup)
    assert group.listed() == ListedGroup(GROUP_ID, "share", "Stable", "share")


def test_groups_that_are_none() -> None:
    assert ShareSimulation().machine.share.describe("other") == DescribedGroup(
        group_id="other",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group other not found.",
    )
