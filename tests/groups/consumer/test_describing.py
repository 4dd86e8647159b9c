"""ConsumerGroupDescribe and ListGroups of a group on its way, field by field."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.groups.consumer import target
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.surroundings import ConsumerSettings
from tests.groups.consumer.simulation import GROUP_ID, Client, ConsumerSimulation


def test_members_and_what_they_have_and_shall_have() -> None:
    simulation = ConsumerSimulation(settings=ConsumerSettings(assignment_interval_ms=0))
    topic_id = simulation.put_topic("t", 4)
    simulation.put_topic("u", 1)
    first = Client(simulation, "a", "i1", topics=["u", "t"])
    first.beat()
    first.move()
    simulation.heartbeat(
        member_id="b-0",
        rack_id="r",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        subscribed_topic_regex="t.*",
        server_assignor="range",
        topic_partitions=[],
    )
    first.beat()
    simulation.delete_topic("u")

    found = simulation.machine.consumer.describe(GROUP_ID)
    kept, given_up, given = [0, 1], [2, 3], [2, 3]
    assert found == DescribedGroup(
        group_id=GROUP_ID,
        group_state="Reconciling",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="range",
        members=[
            Member(
                member_id="a-0",
                instance_id="i1",
                member_epoch=2,
                client_id="client",
                client_host="/127.0.0.1",
                subscribed_topic_names=["t", "u"],
                subscribed_topic_regex="",
                assignment=Assignment([TopicPartitions(topic_id, "t", [*kept, *given_up])]),
                target_assignment=Assignment([TopicPartitions(topic_id, "t", kept)]),
                member_type=1,
            ),
            Member(
                member_id="b-0",
                rack_id="r",
                member_epoch=3,
                client_id="client",
                client_host="/127.0.0.1",
                subscribed_topic_names=["t"],
                subscribed_topic_regex="t.*",
                target_assignment=Assignment([TopicPartitions(topic_id, "t", given)]),
                member_type=1,
            ),
        ],
    )
    group = simulation.group
    assert group is not None
    assert group.listed() == ListedGroup(GROUP_ID, "consumer", "Reconciling", "consumer")


def test_groups_that_are_none() -> None:
    simulation = ConsumerSimulation()
    assert simulation.machine.consumer.describe("other") == DescribedGroup(
        group_id="other",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group other not found.",
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), None),
        ((None, None), None),
        (("range", None, "uniform", "uniform"), "uniform"),
        (("range", "uniform", "range"), "range"),
        (("range", "range", "range", "uniform", "uniform"), "range"),
    ],
)
def test_most_members_choose_the_assignor(
    names: tuple[str | None, ...], expected: str | None
) -> None:
    members = [ConsumerMember("m", server_assignor=name) for name in names]
    assert target.preferred_assignor(members) == expected
