"""Static members of streams groups: they leave for a while, and come back with another id."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import KeyValue, StreamsGroupHeartbeatResponse
from kwire.groups.streams.records import StreamsGroupEpoch, StreamsTargetAssignment
from kwire.groups.surroundings import StreamsSettings
from tests.groups.streams.simulation import Client, StreamsSimulation, copying
from tests.groups.streams.test_heartbeat import settle, started


def beat(
    simulation: StreamsSimulation,
    member_id: str,
    epoch: int,
    instance_id: str = "i",
    **fields: Any,  # noqa: ANN401 - of a heartbeat
) -> StreamsGroupHeartbeatResponse:
    """A static member's heartbeat; with epoch 0 it joins."""
    joining: dict[str, Any] = {}
    if epoch == 0:
        joining = {"topology": copying(), "rebalance_timeout_ms": 1000, "process_id": "p"}
    if epoch >= 0:
        joining |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return simulation.heartbeat(
        member_id=member_id, member_epoch=epoch, instance_id=instance_id, **joining, **fields
    ).response


def away() -> StreamsSimulation:
    """A group of a static member, which is away, and of another member."""
    simulation = started()
    beat(simulation, "first", 0)
    other = Client(simulation, "other", topology=copying())
    for _ in range(3):
        other.beat()
        epoch = simulation.there.members["first"].epoch
        beat(simulation, "first", epoch)
    assert beat(simulation, "first", -2).member_epoch == -2
    return simulation


def test_static_member_comes_back_with_a_new_id_to_its_tasks_without_a_new_epoch() -> None:
    simulation = away()
    group = simulation.there
    before, tasks = group.epoch, group.members["first"].assigned.active
    del simulation.records[:]
    response = beat(simulation, "again", 0)
    assert response.member_epoch == before == group.epoch
    assert {each.subtopology_id: set(each.partitions) for each in response.active_tasks or ()} == {
        name: set(these) for name, these in tasks.items()
    }
    assert "first" not in group.members
    assert not any(isinstance(each, StreamsGroupEpoch) for each in simulation.records)
    written = [each for each in simulation.records if isinstance(each, StreamsTargetAssignment)]
    assert [(each.key.member_id, each.value is None) for each in written] == [
        ("first", True),
        ("again", False),
    ]
    simulation.restart()
    assert simulation.there.static_members == {"i": "again"}


def test_static_member_that_comes_back_with_other_tags_begins_an_epoch() -> None:
    simulation = away()
    before = simulation.there.epoch
    beat(simulation, "again", 0, client_tags=[KeyValue("zone", "a")])
    assert simulation.there.epoch == before + 1


def test_tasks_of_a_static_member_wait_until_its_session_ends() -> None:
    simulation = away()
    simulation.wait(StreamsSettings().session_timeout_ms - 1)
    assert "first" in simulation.there.members
    simulation.wait(1)
    assert "first" not in simulation.there.members
    assert simulation.there.static_members == {}


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "error", "message"),
    [
        (
            "other",
            0,
            "i",
            ErrorCode.UNRELEASED_INSTANCE_ID,
            "Static member other with instance id i cannot join the group because the instance id "
            "is owned by first member.",
        ),
        (
            "other",
            2,
            "i",
            ErrorCode.FENCED_INSTANCE_ID,
            "Static member other with instance id i was fenced by member first.",
        ),
        (
            "other",
            -2,
            "i",
            ErrorCode.FENCED_INSTANCE_ID,
            "Static member other with instance id i was fenced by member first.",
        ),
        ("first", 2, "j", ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown."),
        ("first", -1, "j", ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown."),
    ],
)
def test_wrong_instance_ids_are_refused_with_kafkas_message(
    member_id: str, epoch: int, instance_id: str, error: ErrorCode, message: str
) -> None:
    simulation = started()
    beat(simulation, "first", 0)
    response = beat(simulation, member_id, epoch, instance_id)
    assert (response.error_code, response.error_message) == (error, message)


def test_static_member_may_come_back_to_a_full_group() -> None:
    simulation = started(group_streams_max_size=1)
    beat(simulation, "first", 0)
    beat(simulation, "first", -2)
    assert beat(simulation, "again", 0).error_code == ErrorCode.NONE
    refused = beat(simulation, "other", 0, "j")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_static_member_that_leaves_for_good_is_removed_at_once() -> None:
    simulation = away()
    beat(simulation, "first", -1)
    assert list(simulation.there.members) == ["other-0"]
    other = Client(simulation, "other", topology=copying(), epoch=simulation.there.epoch)
    settle(other)
    assert simulation.there.static_members == {}
