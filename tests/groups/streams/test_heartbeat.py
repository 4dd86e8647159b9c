"""Heartbeats of streams groups, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kwire.groups.assigned.group import AssignedGroupState
from kwire.groups.limits import GroupLimits
from kwire.groups.streams.configuring import StatusCode
from kwire.groups.streams.records import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetAssignment,
    StreamsTargetEpoch,
    TopologyRecord,
)
from kwire.groups.surroundings import StreamsSettings
from tests.groups.streams.simulation import (
    AT_ONCE,
    CHANGELOG,
    REPARTITION,
    Client,
    StreamsSimulation,
    copying,
    counting,
)

TIMEOUT_MS = StreamsSettings().session_timeout_ms


def started(
    partitions: int = 2, settings: StreamsSettings | None = None, **limits: int
) -> StreamsSimulation:
    """A cluster in which the topics of `counting` are as they must be."""
    known = GroupLimits(**limits)  # type: ignore[arg-type] # numbers all
    simulation = StreamsSimulation(known, settings or AT_ONCE)
    for name in ("t", REPARTITION, CHANGELOG):
        simulation.put_topic(name, partitions)
    return simulation


def settle(*clients: Client) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()


def test_heartbeat_writes_the_records_of_apache_kafka_in_its_order() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    joined = [StreamsTargetAssignment, StreamsTargetEpoch, StreamsCurrentAssignment]
    assert [type(each) for each in simulation.records] == [
        StreamsMemberMetadata,
        TopologyRecord,
        StreamsGroupEpoch,
        *joined,
    ]
    del simulation.records[:]
    client.leave()
    left = [
        StreamsCurrentAssignment,
        StreamsTargetAssignment,
        StreamsMemberMetadata,
        StreamsGroupEpoch,
        StreamsTargetEpoch,
    ]
    assert [type(each) for each in simulation.records] == left
    group = simulation.there
    assert (group.target_epoch, group.target_timestamp_ms) == (group.epoch, 0)
    del simulation.records[:]
    assert simulation.delete_group() == ErrorCode.NONE
    assert [type(each) for each in simulation.records] == [
        StreamsTargetEpoch,
        StreamsGroupEpoch,
        TopologyRecord,
    ]
    assert simulation.group is None
    assert simulation.reloaded().groups == {}


def test_second_member_gets_half_of_the_tasks() -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    first.beat()
    assert first.active == {("0", 0), ("0", 1), ("1", 0), ("1", 1)}
    assert simulation.there.state is AssignedGroupState.STABLE
    second.beat()
    assert not second.active, "the other has not given up anything yet"
    settle(first, second)
    assert len(first.active) == len(second.active) == 2
    assert not first.active & second.active
    assert simulation.there.state is AssignedGroupState.STABLE


def test_heartbeat_without_owned_tasks_revokes_nothing() -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    first.beat()
    second.beat()
    assert len(first.beat(mute=True).response.active_tasks or ()) == 2, "it is told what to keep"
    for _ in range(3):
        assert first.beat(mute=True).response.active_tasks is None
        second.beat()
    assert not second.active
    assert simulation.there.state is AssignedGroupState.RECONCILING


def test_member_that_does_not_revoke_in_time_is_removed() -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    first.beat()
    second.beat()
    first.beat(mute=True)
    for _ in range(3):
        simulation.wait(25_000)
        first.beat(mute=True, lose_reply=True)
        second.beat()
    assert [*simulation.there.members] == [second.member_id]
    settle(second)
    assert len(second.active) == 4


def test_process_has_a_task_in_one_role() -> None:
    """Its members share a directory: what one follows another cannot process, nor follow."""
    simulation = started(settings=StreamsSettings(45_000, 5_000, 0, 0, 1), partitions=1)
    clients = [
        Client(simulation, name, process) for name, process in (("a", "p"), ("b", "p"), ("c", "q"))
    ]
    settle(*clients)
    for process in ("p", "q"):
        ours = [client for client in clients if client.process == process]
        held = [task for client in ours for task in (*client.active, *client.standby)]
        assert len(held) == len(set(held))
    assert {task for client in clients for task in client.standby} == {("1", 0)}


def test_missing_source_topics_are_reported() -> None:
    simulation = StreamsSimulation()
    client = Client(simulation, "a")
    client.beat()
    assert client.statuses == [StatusCode.MISSING_SOURCE_TOPICS]
    assert (client.last.status or [])[0].status_detail == "Source topics t are missing."
    assert simulation.there.state is AssignedGroupState.NOT_READY
    assert not client.active


def test_missing_internal_topics_are_requested_and_awaited() -> None:
    simulation = StreamsSimulation()
    simulation.put_topic("t", 3)
    client = Client(simulation, "a")
    reply = client.beat()
    assert client.statuses == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {name: each.partitions for name, each in reply.to_create.items()} == {
        REPARTITION: 3,
        CHANGELOG: 3,
    }
    assert not client.active
    simulation.create(reply)
    assert client.beat().to_create == {}
    assert (client.statuses, len(client.active)) == ([], 6)
    assert simulation.there.validated_topology_epoch == 0


def test_internal_topic_with_another_partition_count_is_reported() -> None:
    simulation = started(partitions=2)
    simulation.put_topic("t", 3)
    client = Client(simulation, "a")
    client.beat()
    assert client.statuses == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_topic_with_new_partitions_begins_an_epoch() -> None:
    simulation = started(partitions=1)
    client = Client(simulation, "a", topology=copying())
    client.beat()
    epoch = client.epoch
    simulation.put_topic("t", 3)
    client.beat()
    assert (client.epoch, len(client.active)) == (epoch + 1, 3)


def test_first_assignment_waits_for_the_initial_delay() -> None:
    simulation = started(settings=StreamsSettings(initial_rebalance_delay_ms=3_000))
    clients = [Client(simulation, name) for name in "ab"]
    for client in clients:
        client.beat()
        assert client.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    assert [client.epoch for client in clients] == [1, 1]
    simulation.wait(3_000)
    assert len(simulation.there.target) == 2
    settle(*clients)
    assert [len(client.active) for client in clients] == [2, 2]
    assert clients[0].statuses == []


def test_first_assignment_is_not_delayed_after_a_restart() -> None:
    simulation = started(settings=StreamsSettings(initial_rebalance_delay_ms=3_000))
    client = Client(simulation, "a")
    client.beat()
    simulation.restart()
    client.beat()
    assert len(client.active) == 4


def test_assignment_interval_separates_assignments() -> None:
    simulation = started(
        settings=StreamsSettings(initial_rebalance_delay_ms=0, assignment_interval_ms=1_000)
    )
    first, second = Client(simulation, "a"), Client(simulation, "b")
    first.beat()
    second.beat()
    assert second.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    simulation.wait(1_000)
    second.beat()
    assert second.statuses == []
    assert simulation.there.target_epoch == simulation.there.epoch


def test_changed_number_of_standbys_begins_an_epoch() -> None:
    simulation = started(partitions=1)
    clients = [Client(simulation, name) for name in "ab"]
    settle(*clients)
    assert not any(client.standby for client in clients)
    simulation.surroundings.streams = StreamsSettings(45_000, 5_000, 0, 0, 1)
    settle(*clients)
    assert {task for client in clients for task in client.standby} == {("1", 0)}


def test_older_or_different_topology_is_reported_or_refused() -> None:
    simulation = started()
    Client(simulation, "a", topology=counting(1)).beat()
    stale = Client(simulation, "b", topology=copying(0))
    stale.beat()
    assert stale.statuses == [StatusCode.STALE_TOPOLOGY]
    for topology in (copying(1), counting(2)):
        reply = Client(simulation, "c", topology=topology).beat()
        assert reply.response.error_code == ErrorCode.INVALID_REQUEST
        assert reply.response.error_message == "Topology updates are not supported yet."


def test_invalid_topology_is_refused() -> None:
    simulation = started()
    topology = Topology(0, [*copying().subtopologies, *copying().subtopologies])
    response = Client(simulation, "a", topology=topology).beat().response
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert simulation.group is None


def test_shutdown_request_is_reported_to_all_members_until_they_left() -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    settle(first, second)
    first.leave(shutdown=True)
    second.beat()
    assert second.statuses == [StatusCode.SHUTDOWN_APPLICATION]
    second.leave()
    first.beat()
    assert first.statuses == []


def test_endpoints_are_reported_after_tasks_moved() -> None:
    simulation = started(partitions=1)
    client = Client(simulation, "a", topology=copying(), endpoint=Endpoint("host", 1))
    other = Client(simulation, "b", topology=copying())
    client.beat()
    told = (client.last.partitions_by_user_endpoint or [])[0]
    assert told.user_endpoint == Endpoint("host", 1)
    assert [(each.topic, each.partitions) for each in told.active_partitions] == [("t", [0])]
    other.beat()
    assert other.last.partitions_by_user_endpoint is not None
    other.beat()
    assert other.last.partitions_by_user_endpoint is None, "it was told before"


def test_heartbeat_with_the_previous_epoch_gets_the_lost_response() -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    first.beat()
    second.beat()
    first.beat()
    second.beat()
    first.beat(lose_reply=True)
    assert first.beat().response.error_code == ErrorCode.NONE


@pytest.mark.parametrize(("epoch", "than"), [(9, "greater"), (1, "smaller")])
def test_heartbeat_with_a_wrong_epoch_is_fenced(epoch: int, than: str) -> None:
    simulation = started()
    first, second = Client(simulation, "a"), Client(simulation, "b")
    settle(first, second)
    response = simulation.heartbeat(member_id="a-0", member_epoch=epoch).response
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert f"{than} member epoch ({epoch})" in (response.error_message or "")


def test_member_is_removed_when_its_session_ends() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    simulation.wait(TIMEOUT_MS)
    assert not simulation.there.members
    assert client.beat().response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_owned_tasks_outside_the_topology_are_refused() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    client.active = frozenset({("9", 0)})
    response = client.beat().response
    assert response.error_message == "Subtopology 9 does not exist in the topology."
    client.beat()
    client.active = frozenset({("0", 7)})
    response = client.beat().response
    assert response.error_message == (
        "Task 7 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"
    )


def test_join_of_a_full_group_is_refused() -> None:
    simulation = started(group_streams_max_size=1)
    client = Client(simulation, "a")
    client.beat()
    response = Client(simulation, "b").beat().response
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.beat().response.error_code == ErrorCode.NONE
    client.forget()
    assert client.beat().response.error_code == ErrorCode.NONE, "a member may join again"


def test_heartbeat_has_the_settings_for_offsets_of_tasks() -> None:
    simulation = started(settings=replace(AT_ONCE, acceptable_recovery_lag=7))
    response = Client(simulation, "a").beat().response
    assert (response.task_offset_interval_ms, response.acceptable_recovery_lag) == (60_000, 7)


@pytest.mark.parametrize(
    ("version", "tags", "missing"),
    [
        (1, {}, "zone, rack"),
        (1, {"rack": "r"}, "zone"),
        (1, {"zone": "", "rack": ""}, ""),
        (0, {}, ""),
    ],
)
def test_member_without_the_tags_of_its_group_gets_a_status_since_version_1(
    version: int, tags: dict[str, str], missing: str
) -> None:
    simulation = started(settings=replace(AT_ONCE, rack_aware_assignment_tags=("zone", "rack")))
    response = simulation.heartbeat(
        api_version=version,
        member_id="m",
        topology=copying(),
        rebalance_timeout_ms=1000,
        process_id="p",
        client_tags=[KeyValue(*tag) for tag in tags.items()],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    ).response
    assert response.active_tasks, "it gets its tasks all the same"
    details = [(each.status_code, each.status_detail) for each in response.status or ()]
    sentence = (
        f"Missing required client tags for rack-aware standby assignment: [{missing}]. Configure "
        "them via 'client.tag.<tagKey>' in your Streams config."
    )
    assert details == ([(StatusCode.MISSING_CLIENT_TAGS, sentence)] if missing else [])


def test_changed_tags_of_the_group_begin_an_epoch() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    before = simulation.there.epoch
    simulation.surroundings.streams = replace(AT_ONCE, rack_aware_assignment_tags=("zone", "rack"))
    client.beat()
    assert simulation.there.epoch == before + 1
    assert simulation.there.assignment_configs == {
        "num.standby.replicas": "0",
        "rack.aware.assignment.tags": "zone,rack",
    }


def test_members_of_one_process_have_an_endpoint_entry_each() -> None:
    simulation = started()
    simulation.put_topic("narrow", 1)
    topology = Topology(0, [Subtopology("0", source_topics=["t", "narrow"])])
    endpoint = Endpoint("host", 1)
    clients = [Client(simulation, name, "p", topology, endpoint) for name in "ab"]
    settle(*clients)
    clients[0].endpoint_epoch = -1
    clients[0].beat()
    entries = clients[0].last.partitions_by_user_endpoint or []
    assert [entry.user_endpoint for entry in entries] == [endpoint, endpoint]
    held = [
        {topic.topic: topic.partitions for topic in entry.active_partitions} for entry in entries
    ]
    assert sorted(held, key=len) == [{"t": [1]}, {"narrow": [0], "t": [0]}]


def test_endpoint_is_kept_by_heartbeats_and_removed_by_a_join_without_it() -> None:
    simulation = started()
    client = Client(simulation, "a", endpoint=Endpoint("host", 1))
    client.beat()
    client.beat()
    endpoints = [simulation.there.members["a-0"].endpoint]
    epoch = simulation.there.session.endpoint_epoch
    client.endpoint = None
    client.forget()
    client.beat()
    endpoints.append(simulation.there.members["a-0"].endpoint)
    assert endpoints == [("host", 1), None]
    assert simulation.there.session.endpoint_epoch == epoch + 1


def test_reported_offsets_stay_until_the_next_report_and_go_with_the_member() -> None:
    simulation = started()
    client, other = Client(simulation, "a"), Client(simulation, "b")
    settle(client, other)

    def report(offsets: list[TaskOffset] | None, ends: list[TaskOffset] | None) -> ErrorCode:
        response = simulation.heartbeat(
            member_id="a-0",
            member_epoch=client.epoch,
            task_offsets=offsets,
            task_end_offsets=ends,
        ).response
        return ErrorCode(response.error_code)

    one = TaskOffset("1", 0, 5)
    assert report([one, TaskOffset("0", 1, 7)], [one]) is ErrorCode.NONE
    assert report(None, []) is ErrorCode.NONE
    assert report([one, one], None) is ErrorCode.INVALID_REQUEST
    assert simulation.there.session.task_offsets == {"a-0": ({"1": {0: 5}, "0": {1: 7}}, {})}
    client.leave()
    assert simulation.there.session.task_offsets == {}


def test_member_that_reports_the_furthest_offset_gets_the_standby() -> None:
    simulation = started(settings=replace(AT_ONCE, num_standby_replicas=0), partitions=1)
    clients = [Client(simulation, name, topology=stateful()) for name in "abc"]
    settle(*clients)
    owner = next(client for client in clients if client.active)
    followers = [client for client in clients if client is not owner]
    for offset, client in enumerate(followers):
        simulation.heartbeat(
            member_id=client.member_id,
            member_epoch=client.epoch,
            task_offsets=[TaskOffset("0", 0, offset)],
        )
    simulation.surroundings.streams = replace(AT_ONCE, num_standby_replicas=1)
    settle(*clients)
    assert followers[1].standby == {("0", 0)}


def test_standby_becomes_active_in_the_same_member_without_being_given_up() -> None:
    simulation = started(settings=replace(AT_ONCE, num_standby_replicas=1), partitions=1)
    clients = [Client(simulation, name, topology=stateful()) for name in "ab"]
    settle(*clients)
    owner = next(client for client in clients if client.active)
    (follower,) = (client for client in clients if client is not owner)
    assert follower.standby == {("0", 0)}
    owner.leave()
    follower.beat()
    assert follower.active == {("0", 0)}
    assert not follower.standby


def stateful() -> Topology:
    """Reads `t`, and keeps its state in one subtopology."""
    changelogs = [TopicInfo(CHANGELOG)]
    return Topology(0, [Subtopology("0", source_topics=["t"], state_changelog_topics=changelogs)])
