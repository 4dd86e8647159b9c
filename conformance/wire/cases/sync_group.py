"""Cases of SyncGroup: each state of a group."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
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
from kwire.conformance.wire.cases.consumer_group import join as join_consumer
from kwire.conformance.wire.cases.consumer_group import new_group
from kwire.conformance.wire.cases.migration import classic_join, classic_sync, create_mixed_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.SYNC_GROUP)


def access_request(version: int, topic_id: bytes) -> SyncGroupRequest:
    return SyncGroupRequest(GROUP, 1, "member", protocol_type="consumer", protocol_name="range")


@case("the leader, again, and with other words")
def leader(stage: Stage) -> None:
    """The leader repeats its SyncGroup with the same, other and no assignments."""
    group = stage.name("g")
    member = join_first_member(stage, group)
    stage.send(sync(group, member.member_id))
    stage.send(sync(group, member.member_id, data=b"other"))
    stage.send(SyncGroupRequest(group, 1, member.member_id))


@case("no assignment for its own")
def unassigned(stage: Stage) -> None:
    group = stage.name("g")
    member = join_first_member(stage, group)
    stage.send(SyncGroupRequest(group, 1, member.member_id))


@case("a wrong generation or member")
def wrong(stage: Stage) -> None:
    """SyncGroup with a wrong generation or an unknown or empty member id is refused."""
    group = stage.name("g")
    member = create_stable_group(stage, group)
    for generation in (0, 2, -1):
        stage.send(sync(group, member.member_id, generation))
    stage.send(sync(group, "nobody"))
    stage.send(sync(group, ""))


@case("while others join")
def while_joining(stage: Stage) -> None:
    """SyncGroup during a rebalance tells the member to rejoin, in the old and in the next
    generation."""
    group = stage.name("g")
    member = start_rebalance(stage, group, "second")
    stage.send(sync(group, member.member_id))
    stage.send(sync(group, member.member_id, 2))
    stage.ask(join(group, member.member_id), 4)
    stage.end("second")


@case("a follower waits for the leader")
def follower(stage: Stage) -> None:
    """A follower's SyncGroup waits until the leader has sent the assignments."""
    group = stage.name("g")
    member = start_rebalance(stage, group, "second")
    stage.begin(join(group, member.member_id), 4, on="first")
    second = stage.end("second")
    stage.end("first")
    stage.begin(SyncGroupRequest(group, 2, second.member_id), on="second")
    both = sync(group, member.member_id, 2)
    both.assignments.append(SyncGroupRequestAssignment(second.member_id, b"its"))
    stage.send(both, on="first")
    stage.end("second")


@case("an empty group")
def empty(stage: Stage) -> None:
    group = stage.name("g")
    member = create_empty_group(stage, group)
    stage.send(sync(group, member.member_id))


@case("a group that has only offsets")
def offsets_only(stage: Stage) -> None:
    group = stage.name("g")
    stage.ask(commit(group, filled_topic(stage)))
    stage.send(sync(group, "m"))


@case("static: the instance and another's", since=3)
def static(stage: Stage) -> None:
    """A static member syncs with the right, another and no instance id."""
    group, instance = stage.name("g"), stage.name("i")
    member = join_first_member(stage, group, instance=instance)
    for name in (instance, "other", None):
        stage.send(sync(group, member.member_id, group_instance_id=name))
    stage.send(sync(group, "nobody", group_instance_id=instance))


@case("protocol type and name", since=5)
def protocol(stage: Stage) -> None:
    """SyncGroup with another protocol type or protocol is refused; the right ones are accepted."""
    group = stage.name("g")
    member = join_first_member(stage, group)
    for kind, name in (("other", "range"), ("consumer", "other"), ("consumer", "range")):
        stage.send(sync(group, member.member_id, protocol_type=kind, protocol_name=name))


@case("a consumer group with members of both kinds")
def consumer_group(stage: Stage) -> None:
    """A classic member of a consumer group syncs with right and wrong generations and protocols.

    `c` is the classic member in generation 3, `m` uses the consumer protocol. After another member
    has joined, `c` must rejoin first.
    """
    topic, group = stage.topic(partitions=3), new_group(stage)
    create_mixed_group(stage, group, topic)
    for member_id, generation in (("c", 3), ("c", 2), ("c", 4), ("m", 3), ("nobody", 3), ("", 3)):
        stage.send(classic_sync(group, member_id, generation))
    if stage.version >= 5:
        for kind, name in (
            ("consumer", "range"),
            ("consumer", None),
            ("connect", "range"),
            ("consumer", "sticky"),
        ):
            stage.send(classic_sync(group, "c", 3, protocol_type=kind, protocol_name=name))
    stage.ask(join_consumer(group, "n", topic))
    stage.send(classic_sync(group, "c", 3))
    stage.ask(classic_join(group, "c", topic, owned=(2,), version=0), 3)
    stage.send(classic_sync(group, "c", 4))


@case("a static member of a consumer group", since=3)
def static_in_consumer_group(stage: Stage) -> None:
    """A static classic member of a consumer group: right and wrong member and instance ids."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.ask(join_consumer(group, "m", topic))
    member_id = stage.ask(classic_join(group, "", topic, instance="i"), 5).member_id
    for name, instance in ((member_id, "i"), ("nobody", "i"), (member_id, "j"), (member_id, None)):
        stage.send(classic_sync(group, name, 3, group_instance_id=instance))


case.requests(
    {
        "the empty group": lambda stage: sync("", "m"),
        "an unknown group": lambda stage: sync(stage.name("g"), "m"),
    }
)
