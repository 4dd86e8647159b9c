"""Scenarios of classic groups: joining, syncing, leaving, fencing and committed offsets."""

from __future__ import annotations

from typing import Any

from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.conformance.behaviour.asking import offset_fetch
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    join,
    join_first_member,
    sync,
    unknown_topic,
)

scenario = Scenarios("groups")


def beat(group: str, member: str, generation: int = 1, **more: Any) -> HeartbeatRequest:  # noqa: ANN401 - fields
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, **more)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group, members=[MemberIdentity(member, instance) for member, instance in members]
    )


def described(stage: ScenarioStage, *groups: str) -> None:
    stage.send(DescribeGroupsRequest(list(groups)))


@scenario()
def member_id_required(stage: ScenarioStage) -> None:
    """Since version 4 a new member first gets its id; before, it joins at once."""
    group = stage.name("g")
    first = stage.send(join(group))
    stage.send(join(group, "nobody"))
    stage.send(beat(group, first.member_id, -1))
    stage.send(join(group, first.member_id))
    old = stage.name("h")
    stage.send(join(old), 3)
    static = stage.name("s")
    stage.send(join(static, instance="i"))


@scenario()
def static_member_comes_back(stage: ScenarioStage) -> None:
    """A static member that restarts gets a new id and causes no rebalance."""
    group = stage.name("g")
    before = create_stable_group(stage, group, instance="i")
    old, generation = before.member_id, before.generation_id
    described(stage, group)
    back = stage.send(join(group, instance="i"))
    described(stage, group)
    stage.send(beat(group, old, generation, group_instance_id="i"))
    stage.send(beat(group, old, generation))
    stage.send(beat(group, back.member_id, generation, group_instance_id="i"))
    stage.send(beat(group, back.member_id, generation, group_instance_id="other"))
    stage.send(join(group, old, instance="i"))
    stage.send(sync(group, old, generation, group_instance_id="i"))
    request = SyncGroupRequest(group, back.generation_id, back.member_id, "i", "consumer", "range")
    stage.send(request)
    topic = stage.topic()
    for member in (old, back.member_id):
        commit_request = commit(group, topic, member_id=member, generation=generation)
        commit_request.group_instance_id = "i"
        stage.send(commit_request)
    described(stage, group)


@scenario()
def static_member_with_other_protocols(stage: ScenarioStage) -> None:
    """A static leader that restarts with another subscription causes a rebalance."""
    group = stage.name("g")
    create_stable_group(stage, group, instance="i")
    stage.send(join(group, instance="i", protocols=(("range", b"y"),)))
    described(stage, group)
    stage.send(join(group, instance="i", protocols=(("other", b"y"),)))
    described(stage, group)


@scenario()
def static_member_is_removed(stage: ScenarioStage) -> None:
    """An administrator removes a member by its instance id, or by member id and instance id."""
    group = stage.name("g")
    member = create_stable_group(stage, group, instance="i")
    for who in (
        ("", "nobody"),
        ("wrong", "i"),
        ("wrong", None),
        (member.member_id, "other"),
        ("", "i"),
        ("", "i"),
    ):
        stage.send(leave(group, who))
    described(stage, group)
    stage.send(beat(group, member.member_id, member.generation_id, group_instance_id="i"))


@scenario()
def empty_assignment(stage: ScenarioStage) -> None:
    """A member without an assignment gets empty bytes."""
    group = stage.name("g")
    member = join_first_member(stage, group)
    request = sync(group, member.member_id, member.generation_id)
    request.assignments = []
    for version in (0, 3, 4, 5):
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        stage.send(request, version)
    described(stage, group)
    request.assignments = [SyncGroupRequestAssignment(member.member_id, b"late")]
    stage.send(request)


@scenario()
def second_member_joins(stage: ScenarioStage) -> None:
    """A second member that joins causes one rebalance and no more."""
    group = stage.name("g")
    first = create_stable_group(stage, group)
    second = stage.send(join(group), on="second")
    stage.begin(join(group, second.member_id, protocols=(("range", b"y"),)), on="second")
    stage.until("rebalancing", lambda: _state(stage, group) == "PreparingRebalance")
    stage.send(beat(group, first.member_id, 1))
    stage.send(sync(group, first.member_id, 1))
    topic = stage.topic()
    stage.send(commit(group, topic, member_id=first.member_id, generation=1))
    stage.send(join(group, first.member_id))
    stage.end("second")
    described(stage, group)
    stage.send(beat(group, first.member_id, 1))
    stage.send(beat(group, first.member_id, 2))
    stage.begin(sync(group, second.member_id, 2, group_instance_id=None), on="second")
    both = sync(group, first.member_id, 2, b"of first")
    both.assignments.append(SyncGroupRequestAssignment(second.member_id, b"of second"))
    stage.send(both)
    stage.end("second")
    for member in (first, second):
        stage.send(beat(group, member.member_id, 2))
        stage.send(sync(group, member.member_id, 2))
    again = join(group, second.member_id, protocols=(("range", b"y"),))
    stage.send(again, on="second")  # a follower with an unchanged subscription
    described(stage, group)


@scenario()
def five_join_at_once(stage: ScenarioStage) -> None:
    """Members that join together get one generation with one leader."""
    group = stage.name("g")
    names = [f"m{i}" for i in range(5)]
    ids = {name: stage.ask(join(group)).member_id for name in names}
    first = stage.ask(join(group, ids["m0"]))
    stage.note("alone", [first.generation_id, len(first.members)])
    for name in names[1:]:
        stage.begin(join(group, ids[name]), on=name)
    stage.until("all wait", lambda: _members(stage, group) == 5)
    leader = stage.ask(join(group, ids["m0"]))
    stage.note("together", [leader.generation_id, len(leader.members)])
    for name in names[1:]:
        stage.end(name)
    assigned = sync(group, ids["m0"], leader.generation_id)
    for name in names[1:]:
        assigned.assignments.append(SyncGroupRequestAssignment(ids[name], name.encode()))
    stage.send(assigned)
    for name in names[1:]:
        stage.send(sync(group, ids[name], leader.generation_id), on=name)
    stage.note("state", _state(stage, group))


@scenario()
def the_late_are_dropped(stage: ScenarioStage) -> None:
    """A member that does not rejoin within the rebalance timeout is removed."""
    group = stage.name("g")
    first = create_stable_group(stage, group, rebalance_ms=700)
    second = stage.ask(join(group, rebalance_ms=700)).member_id
    with stage.lasts("the rebalance timeout", 0.6, 5.0):
        stage.send(join(group, second, rebalance_ms=700), on="second")
    stage.send(beat(group, first.member_id, 1))
    stage.send(join(group, first.member_id, rebalance_ms=700))
    described(stage, group)


def _state(stage: ScenarioStage, group: str) -> str:
    state: str = stage.ask(DescribeGroupsRequest([group])).groups[0].group_state
    return state


def _members(stage: ScenarioStage, group: str) -> int:
    return len(stage.ask(DescribeGroupsRequest([group])).groups[0].members)


@scenario()
def leaves(stage: ScenarioStage) -> None:
    """A member that left is unknown; the group is empty after the last one."""
    group = stage.name("g")
    member = create_stable_group(stage, group)
    stage.send(leave(group, (member.member_id, None), ("nobody", None)))
    described(stage, group)
    stage.send(beat(group, member.member_id, 1))
    stage.send(sync(group, member.member_id, 1))
    stage.send(join(group, member.member_id))
    stage.send(leave(group, (member.member_id, None)))
    stage.send(leave(stage.name("none"), ("x", None)))
    stage.send(leave(group))


@scenario()
def sessions_expire(stage: ScenarioStage) -> None:
    """Session timeouts must lie within the broker's limits."""
    for session_ms in (1, 5999, 1_800_001, 0, -1):
        stage.send(join(stage.name("g"), session_ms=session_ms))


@scenario()
def a_silent_member_is_dropped(stage: ScenarioStage) -> None:
    """A member without heartbeats is removed after its session timeout."""
    group, other = stage.name("silent"), stage.name("beats")
    silent = create_stable_group(stage, group, session_ms=6000)
    beats = create_stable_group(stage, other, session_ms=6000)
    with stage.lasts("the session timeout", 5.5, 9.0):
        while _state(stage, group) == "Stable":
            stage.ask(beat(other, beats.member_id, beats.generation_id))
            stage.pause()
    described(stage, group, other)
    stage.send(beat(group, silent.member_id, silent.generation_id))
    stage.send(beat(other, beats.member_id, beats.generation_id))


@scenario()
def hangs_up_while_joining(stage: ScenarioStage) -> None:
    """A member whose connection closes during its join remains a member."""
    group = stage.name("g")
    first = create_stable_group(stage, group)
    second = stage.ask(join(group)).member_id
    stage.begin(join(group, second), on="second")
    stage.until("rebalancing", lambda: _state(stage, group) == "PreparingRebalance")
    stage.close_connection("second")
    reply = stage.ask(join(group, first.member_id))
    stage.note("members", [reply.generation_id, len(reply.members)])
    stage.send(sync(group, first.member_id, reply.generation_id))
    stage.send(beat(group, second, reply.generation_id), on="second again")
    stage.send(sync(group, second, reply.generation_id), on="second again")


@scenario()
def a_leader_that_never_syncs(stage: ScenarioStage) -> None:
    """Followers wait for the leader's SyncGroup; the wait ends when the leader leaves."""
    group = stage.name("g")
    leader = join_first_member(stage, group)
    second = stage.ask(join(group)).member_id
    stage.begin(join(group, second), on="second")
    stage.until("rebalancing", lambda: _state(stage, group) == "PreparingRebalance")
    generation = stage.ask(join(group, leader.member_id)).generation_id
    stage.end("second")
    stage.begin(sync(group, second, generation), on="second")
    stage.pause()
    stage.send(leave(group, (leader.member_id, None)))
    stage.end("second")
    described(stage, group)
    stage.send(join(group, second), on="second")
    described(stage, group)


@scenario()
def wrong_generations(stage: ScenarioStage) -> None:
    """Requests with a wrong generation, member or protocol, in each state of the group."""
    for state, make in (
        ("stable", create_stable_group),
        ("syncing", join_first_member),
        ("empty", create_empty_group),
    ):
        group = stage.name(state)
        member = make(stage, group)
        topic = stage.topic(state)
        for member_id in (member.member_id, "nobody", ""):
            for generation in (0, 2, -1):
                stage.send(beat(group, member_id, generation))
                stage.send(sync(group, member_id, generation), on="sync")
                stage.send(commit(group, topic, member_id=member_id, generation=generation))
        stage.send(join(group, member.member_id, protocol_type="other"))
        stage.send(join(group, protocol_type="other"))
        stage.send(join(group, protocols=()))
        stage.send(join(group, protocols=(("nobody's", b""),)))
        named = sync(group, member.member_id, 1)
        named.protocol_type, named.protocol_name = "other", "range"
        stage.send(named)
        named.protocol_type, named.protocol_name = "consumer", "other"
        stage.send(named)
        described(stage, group)


@scenario()
def protocols_in_common(stage: ScenarioStage) -> None:
    """The group's protocol is one that all members support, chosen by their votes."""
    group = stage.name("g")
    abc = (("a", b"1"), ("b", b"2"), ("c", b"3"))
    first = join_first_member(stage, group, protocols=abc)
    second = stage.ask(join(group, protocols=(("c", b"4"), ("b", b"5")))).member_id
    stage.begin(join(group, second, protocols=(("c", b"4"), ("b", b"5"))), on="second")
    stage.until("rebalancing", lambda: _state(stage, group) == "PreparingRebalance")
    stage.send(join(group, protocols=(("a", b"6"),)), on="third")
    stage.send(join(group, first.member_id, protocols=abc))
    stage.end("second")
    described(stage, group)


# Committed offsets


@scenario()
def offsets_and_metadata(stage: ScenarioStage) -> None:
    """Committed offsets, epochs and metadata are returned unchanged; metadata has a limit."""
    topic = stage.topic(partitions=3)
    group = stage.name("g")
    for metadata in ("note", "", None, "\u00e9" * 2048, "x" * 4096, "x" * 4097):
        stage.send(commit(group, topic, 7, metadata=metadata, leader_epoch=0))
        stage.send(offset_fetch(group, topic, 0))
    stage.send(commit(group, topic, 0, partition=1))
    stage.send(commit(group, topic, -1, partition=2))
    stage.send(commit(group, topic, -5, partition=2))
    stage.send(commit(group, topic, 2**62, partition=2, leader_epoch=9))
    stage.send(offset_fetch(group, topic, 2, 0, 1, 7))
    stage.send(offset_fetch(group, topic, 0, 1, stable=True))


@scenario()
def offsets_of_what_is_not_there(stage: ScenarioStage) -> None:
    """For unknown partitions, topics and groups, a commit fails and a fetch returns -1."""
    topic, nobody = stage.topic(), unknown_topic(stage)
    group = stage.name("g")
    stage.send(offset_fetch(group, topic, 0))
    stage.send(offset_fetch(group, None))
    stage.send(commit(group, topic, partition=9))
    stage.send(commit(group, nobody))
    stage.send(commit(group, nobody), 9)
    stage.send(commit(group, topic, member_id="m", generation=3))
    stage.send(commit(group, topic))
    stage.send(offset_fetch(group, topic, 9))
    stage.send(offset_fetch(group, nobody, 0))
    stage.send(offset_fetch(group, nobody, 0), 9)
    stage.send(commit("", topic))
    stage.send(offset_fetch("", topic, 0))
    described(stage, group)


@scenario()
def offsets_are_deleted(stage: ScenarioStage) -> None:
    """OffsetDelete spares topics with subscribers; DeleteGroups needs a group without members."""
    topic = stage.topic()
    group = stage.name("g")
    stage.send(commit(group, topic))
    partitions = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(8)]
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic.name, partitions)])
    stage.send(request)
    stage.send(request)
    described(stage, group)
    stage.send(commit(group, topic))
    member = create_stable_group(stage, group)
    stage.send(request)
    stage.send(DeleteGroupsRequest([group]))
    stage.send(leave(group, (member.member_id, None)))
    stage.send(request)
    stage.send(DeleteGroupsRequest([group]))
    stage.send(DeleteGroupsRequest([group]))
    described(stage, group)
    stage.send(OffsetDeleteRequest(stage.name("none"), request.topics))
    stage.send(offset_fetch(group, topic, 0))


@scenario()
def simple_commit_to_a_live_group(stage: ScenarioStage) -> None:
    """A commit without a member is accepted only by an empty group."""
    topic = stage.topic()
    group = stage.name("g")
    member = create_stable_group(stage, group)
    stage.send(commit(group, topic))
    stage.send(commit(group, topic, member_id=member.member_id, generation=1))
    stage.send(leave(group, (member.member_id, None)))
    stage.send(commit(group, topic, 9))
    stage.send(commit(group, topic, 9, member_id=member.member_id, generation=1))
    stage.send(offset_fetch(group, topic, 0))


@scenario()
def listed_and_described(stage: ScenarioStage) -> None:
    """ListGroups filters by state and type; an unknown group is described as dead."""
    live, empty, simple = (stage.name(name) for name in ("live", "empty", "simple"))
    create_stable_group(stage, live)
    create_empty_group(stage, empty)
    stage.send(commit(simple, stage.topic()))
    for states, types in (
        ([], []),
        (["Stable"], []),
        (["stable", "EMPTY"], []),
        (["nonsense"], []),
        ([], ["classic"]),
        ([], ["CONSUMER"]),
        (["Dead"], ["Classic"]),
    ):
        stage.send(ListGroupsRequest(states, types))
    described(stage, live, empty, simple, stage.name("none"), "")
    for version in (0, 4, 5):
        stage.send(DescribeGroupsRequest([stage.name("none")]), version)


@scenario()
def coordinators(stage: ScenarioStage) -> None:
    """Every group has a coordinator; unknown key types and keys are refused."""
    group = stage.name("g")
    for version in (0, 3, 4):
        key_type = 0
        keys = [group, "", stage.name("h")]
        request = FindCoordinatorRequest(key=group, key_type=key_type)
        if version >= 4:
            request.key, request.coordinator_keys = "", keys
        stage.send(request, version)
    for key_type in (2, 7, -1):
        stage.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))
    described(stage, group)
