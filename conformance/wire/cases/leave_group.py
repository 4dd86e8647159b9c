"""Cases of LeaveGroup: one member, several, and unknown members."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
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
)
from kwire.conformance.wire.cases.consumer_group import join as join_consumer
from kwire.conformance.wire.cases.consumer_group import new_group
from kwire.conformance.wire.cases.migration import classic_join, create_mixed_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LEAVE_GROUP)


def access_request(version: int, topic_id: bytes) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(GROUP, "member")
    return LeaveGroupRequest(GROUP, members=[MemberIdentity("member")])


def leave(stage: Stage, group_id: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    """Build a request of member and instance ids; old versions take only the first member id."""
    if stage.version < 3:
        return LeaveGroupRequest(group_id, member_id=members[0][0])
    return LeaveGroupRequest(group_id, members=[MemberIdentity(*member) for member in members])


@case("the only member, twice")
def only(stage: Stage) -> None:
    """The only member leaves; the second time it is unknown."""
    group = stage.name("g")
    member = create_stable_group(stage, group)
    for _ in range(2):
        stage.send(leave(stage, group, (member.member_id, None)))


@case("while the group awaits its assignment")
def awaiting(stage: Stage) -> None:
    group = stage.name("g")
    member = join_first_member(stage, group)
    stage.send(leave(stage, group, (member.member_id, None)))


@case("a member that has not joined yet")
def pending(stage: Stage) -> None:
    """A client that has its member id, but has not joined yet, leaves twice."""
    group = stage.name("g")
    member = stage.ask(join(group), 4)
    stage.send(leave(stage, group, (member.member_id, None)))
    stage.send(leave(stage, group, (member.member_id, None)))


@case("nobody's id")
def nobody(stage: Stage) -> None:
    """Unknown and empty member ids cannot leave."""
    group = stage.name("g")
    create_stable_group(stage, group)
    for name in ("nobody", ""):
        stage.send(leave(stage, group, (name, None)))


@case("an empty group")
def empty(stage: Stage) -> None:
    group = stage.name("g")
    member = create_empty_group(stage, group)
    stage.send(leave(stage, group, (member.member_id, None)))


@case("a group that has only offsets")
def offsets_only(stage: Stage) -> None:
    group = stage.name("g")
    stage.ask(commit(group, filled_topic(stage)))
    stage.send(leave(stage, group, ("m", None)))


@case("several at once", since=3)
def several(stage: Stage) -> None:
    """Members leave by member id and by instance id; unknown and fenced ones get their own
    error."""
    group, instance = stage.name("g"), stage.name("i")
    member = create_stable_group(stage, group, instance=instance)
    stage.send(
        leave(stage, group, ("nobody", None), ("", "other"), ("", instance), ("nobody", instance))
    )
    stage.send(leave(stage, group, (member.member_id, instance)))


@case("static: another's id", since=3)
def fenced(stage: Stage) -> None:
    """A static member leaves with a wrong member id, a wrong instance id, and without one."""
    group, instance = stage.name("g"), stage.name("i")
    member = create_stable_group(stage, group, instance=instance)
    stage.send(leave(stage, group, ("nobody", instance)))
    stage.send(leave(stage, group, (member.member_id, "other")))
    stage.send(leave(stage, group, (member.member_id, None)))


@case("no members", since=3)
def no_members(stage: Stage) -> None:
    """Requests without members, about a missing and an existing group."""
    group = stage.name("g")
    stage.send(leave(stage, group))
    create_stable_group(stage, group)
    stage.send(leave(stage, group))


@case("a consumer group with members of both kinds")
def consumer_group(stage: Stage) -> None:
    """Members of both protocols leave a consumer group; an unknown and a repeated one are
    refused."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    create_mixed_group(stage, group, topic)
    for member_id in ("nobody", "", "c", "c"):
        stage.send(leave(stage, group, (member_id, None)))
    stage.ask(classic_join(group, "d", topic), 3)
    stage.send(leave(stage, group, ("m", None)))
    stage.send(leave(stage, group, ("d", None)))


@case("several members of a consumer group", since=3)
def several_of_consumer_group(stage: Stage) -> None:
    """Several members of a consumer group leave in one request, by member id and by instance id."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    for name in "mn":
        stage.ask(join_consumer(group, name, topic, instance_id=f"i{name}"))
    first = stage.ask(classic_join(group, "", topic, instance="ic"), 5).member_id
    stage.note_member_id(first)
    stage.ask(classic_join(group, "d", topic), 5)
    stage.send(leave(stage, group, ("nobody", "im"), ("", "iz"), ("m", "im"), ("", "ic")))
    stage.send(leave(stage, group, (first, None), ("n", "im"), ("d", None)))
    stage.send(leave(stage, group, ("n", None)))


case.requests(
    {
        "the empty group": lambda stage: leave(stage, "", ("m", None)),
        "an unknown group": lambda stage: leave(stage, stage.name("g"), ("m", None)),
    }
)
