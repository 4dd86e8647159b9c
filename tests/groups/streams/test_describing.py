"""StreamsGroupDescribe, field by field."""

from __future__ import annotations

from typing import Any, cast

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_heartbeat as heartbeat
from kwire.codecs.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.groups.streams.simulation import (
    CHANGELOG,
    GROUP_ID,
    REPARTITION,
    Client,
    StreamsSimulation,
)


def test_described_topology_is_as_sent_until_its_topics_exist() -> None:
    simulation = StreamsSimulation()
    Client(simulation, "a").beat()
    assert topology(simulation) == Topology(
        0,
        [
            Subtopology("0", source_topics=["t"], repartition_sink_topics=[REPARTITION]),
            Subtopology(
                "1",
                repartition_source_topics=[TopicInfo(REPARTITION)],
                state_changelog_topics=[TopicInfo(CHANGELOG)],
            ),
        ],
    )


def test_description_has_members_and_their_tasks() -> None:
    simulation = StreamsSimulation()
    simulation.put_topic("t", 2)
    client = Client(simulation, "a", "p", endpoint=heartbeat.Endpoint("h", 7))
    simulation.create(client.beat())
    client.beat()
    simulation.heartbeat(
        member_id="b-0",
        member_epoch=0,
        rack_id="r",
        rebalance_timeout_ms=1_000,
        process_id="q",
        client_tags=[heartbeat.KeyValue("zone", "1")],
        topology=client.topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    found = simulation.machine.streams.describe(GROUP_ID)
    first, second = found.members
    assert topology(simulation) == Topology(
        0,
        [
            Subtopology("0", source_topics=["t"], repartition_sink_topics=[REPARTITION]),
            Subtopology(
                "1",
                repartition_source_topics=[TopicInfo(REPARTITION, 2)],
                state_changelog_topics=[TopicInfo(CHANGELOG, 2)],
            ),
        ],
    )
    assert first == Member(
        member_id="a-0",
        member_epoch=client.epoch,
        client_id="client",
        client_host="/host",
        process_id="p",
        user_endpoint=Endpoint("h", 7),
        assignment=Assignment([TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]),
        target_assignment=first.target_assignment,
    )
    assert second == Member(
        member_id="b-0",
        member_epoch=simulation.there.epoch,
        rack_id="r",
        client_id="client",
        client_host="/host",
        process_id="q",
        client_tags=[KeyValue("zone", "1")],
        target_assignment=second.target_assignment,
    )
    targets = [tasks_of(member.target_assignment) for member in found.members]
    assert sorted(targets[0] + targets[1]) == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert len(targets[0]) == len(targets[1])
    epoch = simulation.there.epoch
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == (
        "Reconciling",
        epoch,
        epoch,
    )


def test_describe_of_a_missing_or_other_group_is_refused() -> None:
    assert StreamsSimulation().machine.streams.describe("other") == DescribedGroup(
        group_id="other",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group other not found.",
    )


def test_tombstones_of_a_member_have_its_keys() -> None:
    simulation = StreamsSimulation()
    simulation.put_topic("t", 2)
    client = Client(simulation, "a")
    simulation.create(client.beat())
    client.beat()
    del simulation.records[:]
    client.leave()
    keys = [cast("Any", record).key for record in simulation.records]
    assert {(key.group_id, getattr(key, "member_id", "a-0")) for key in keys} == {("g", "a-0")}
    assert not simulation.there.target


def topology(simulation: StreamsSimulation) -> Topology | None:
    return simulation.machine.streams.describe(GROUP_ID).topology


def tasks_of(assignment: Assignment) -> list[tuple[str, int]]:
    return [(each.subtopology_id, p) for each in assignment.active_tasks for p in each.partitions]
