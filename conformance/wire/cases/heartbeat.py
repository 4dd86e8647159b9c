"""Cases of Heartbeat: each state of a group."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join,
    join_first_member,
    start_rebalance,
    sync,
)
from kwire.conformance.wire.cases.consumer_group import heartbeat as consumer_heartbeat
from kwire.conformance.wire.cases.consumer_group import join as join_consumer
from kwire.conformance.wire.cases.consumer_group import new_group, owning
from kwire.conformance.wire.cases.migration import classic_join, create_mixed_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.HEARTBEAT)


def access_request(version: int, topic_id: bytes) -> HeartbeatRequest:
    return HeartbeatRequest(GROUP, 1, "member")


@case("a stable group")
def member_of_stable(stage: Stage) -> None:
    """Heartbeats of a stable group: the current and wrong generations, and unknown members.

    The group is in generation 1.
    """
    group = stage.name("g")
    member = create_stable_group(stage, group)
    for generation in (1, 0, 2, -1):
        stage.send(HeartbeatRequest(group, generation, member.member_id))
    stage.send(HeartbeatRequest(group, 1, "nobody"))
    stage.send(HeartbeatRequest(group, 1, ""))


@case("a group that awaits its assignment")
def awaiting(stage: Stage) -> None:
    """Heartbeats of a group that waits for its leader's SyncGroup."""
    group = stage.name("g")
    member = join_first_member(stage, group)
    for generation in (1, 2):
        stage.send(HeartbeatRequest(group, generation, member.member_id))


@case("while others join")
def while_joining(stage: Stage) -> None:
    """A heartbeat during a rebalance tells the member to rejoin."""
    group = stage.name("g")
    member = start_rebalance(stage, group, "second")
    stage.send(HeartbeatRequest(group, 1, member.member_id))
    stage.ask(join(group, member.member_id), 4)
    stage.end("second")


@case("after another member has left")
def left(stage: Stage) -> None:
    """After a member has left, the remaining member is told to rejoin, and the other is unknown."""
    group = stage.name("g")
    member = start_rebalance(stage, group, "second")
    stage.begin(join(group, member.member_id), 4, on="first")
    second = stage.end("second")
    stage.end("first")
    stage.ask(sync(group, member.member_id, 2), 3)
    stage.ask(LeaveGroupRequest(group, members=[MemberIdentity(second.member_id)]), 4)
    stage.send(HeartbeatRequest(group, 2, member.member_id))
    stage.send(HeartbeatRequest(group, 2, second.member_id))


@case("an empty group")
def empty(stage: Stage) -> None:
    group = stage.name("g")
    member = create_empty_group(stage, group)
    stage.send(HeartbeatRequest(group, 1, member.member_id))


@case("a group that has only offsets")
def offsets_only(stage: Stage) -> None:
    group = stage.name("g")
    stage.ask(commit(group, filled_topic(stage)))
    stage.send(HeartbeatRequest(group, 1, "m"))


@case("a member that has not joined yet")
def pending(stage: Stage) -> None:
    """A heartbeat of a client that has its member id, but has not joined yet."""
    group = stage.name("g")
    create_stable_group(stage, group)
    second = stage.ask(join(group), 4)
    stage.send(HeartbeatRequest(group, 1, second.member_id))


@case("static: the instance and another's", since=3)
def static(stage: Stage) -> None:
    """A static member is known by its instance id: the right one, another one, none."""
    group, instance = stage.name("g"), stage.name("i")
    member = create_stable_group(stage, group)
    other = stage.name("h")
    fixed = join_first_member(stage, other, instance=instance)
    stage.send(HeartbeatRequest(group, 1, member.member_id, instance))
    for name in (instance, "other", None):
        stage.send(HeartbeatRequest(other, 1, fixed.member_id, name))
    stage.send(HeartbeatRequest(other, 1, "nobody", instance))


@case("a consumer group with members of both kinds")
def consumer_group(stage: Stage) -> None:
    """A classic member of a consumer group sends right and wrong generations, then must rejoin.

    The member `c` is classic and in generation 3; `m` uses the consumer protocol.
    """
    topic, group = stage.topic(partitions=3), new_group(stage)
    create_mixed_group(stage, group, topic)
    for member_id, generation in (("c", 3), ("c", 2), ("c", 4), ("m", 3), ("nobody", 3), ("", 3)):
        stage.send(HeartbeatRequest(group, generation, member_id))
    stage.ask(join_consumer(group, "n", topic))
    stage.send(HeartbeatRequest(group, 3, "c"))
    stage.ask(classic_join(group, "c", topic, owned=(2,)), 3)
    for generation in (3, 4):
        stage.send(HeartbeatRequest(group, generation, "c"))


@case("a classic member that waits for what others have")
def unreleased(stage: Stage) -> None:
    """A classic member is told to rejoin once another member has released a partition for it."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.ask(join_consumer(group, "m", topic))
    stage.ask(classic_join(group, "c", topic), 3)
    stage.send(HeartbeatRequest(group, 3, "c"))
    stage.ask(consumer_heartbeat(group, "m", 2, owning(topic, 0, 1, 2)))
    stage.send(HeartbeatRequest(group, 3, "c"))
    stage.ask(consumer_heartbeat(group, "m", 2, owning(topic, 0, 1)))
    stage.send(HeartbeatRequest(group, 3, "c"))


@case("a static member of a consumer group", since=3)
def static_in_consumer_group(stage: Stage) -> None:
    """A static classic member of a consumer group: right and wrong member and instance ids."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.ask(join_consumer(group, "m", topic))
    member_id = stage.ask(classic_join(group, "", topic, instance="i"), 5).member_id
    for name, instance in ((member_id, "i"), ("nobody", "i"), (member_id, "j"), (member_id, None)):
        stage.send(HeartbeatRequest(group, 3, name, instance))


case.requests(
    {
        "the empty group": lambda stage: HeartbeatRequest("", 1, "m"),
        "an unknown group": lambda stage: HeartbeatRequest(stage.name("g"), 1, "m"),
    }
)
