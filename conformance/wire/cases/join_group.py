"""Cases of JoinGroup: each state of a group, and invalid requests."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join,
    join_first_member,
    sync,
)
from kwire.conformance.wire.cases.consumer_group import join as join_consumer
from kwire.conformance.wire.cases.consumer_group import new_group
from kwire.conformance.wire.cases.migration import classic_join, create_mixed_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.JOIN_GROUP)


def access_request(version: int, topic_id: bytes) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(GROUP, 0, 0, "", protocol_type="consumer", protocols=protocols)


@case("a new group of one")
def alone(stage: Stage) -> None:
    """The only member joins; if it is only given a member id at first, it joins with that."""
    group = stage.name("g")
    first = stage.send(join(group))
    if first.error_code:
        stage.send(join(group, first.member_id))


@case("again, stable, unchanged and changed")
def again(stage: Stage) -> None:
    """A member of a stable group rejoins, with the same and with another subscription."""
    group = stage.name("g")
    member = create_stable_group(stage, group)
    stage.send(join(group, member.member_id))
    stage.send(join(group, member.member_id, protocols=(("range", b"y"),)))


@case("again, while the group awaits the assignment")
def awaiting(stage: Stage) -> None:
    """A member rejoins before the SyncGroup, with the same and with other protocols."""
    group = stage.name("g")
    member = join_first_member(stage, group)
    stage.send(join(group, member.member_id))
    stage.send(join(group, member.member_id, protocols=(("range", b"y"), ("other", b"z"))))


@case("two members", since=4)
def two(stage: Stage) -> None:
    """The first member's rejoin completes the join of the second; both responses are compared."""
    group = stage.name("g")
    first = create_stable_group(stage, group)
    second = stage.send(join(group))
    stage.begin(join(group, second.member_id, protocols=(("range", b"s"),)), on="second")
    stage.send(join(group, first.member_id), on="first")
    stage.end("second")


@case("a second member whose protocols do not fit")
def misfit(stage: Stage) -> None:
    """Joins with another protocol or protocol type, and of an unknown member, are refused."""
    group = stage.name("g")
    create_stable_group(stage, group)
    stage.send(join(group, protocols=(("other", b"x"),)))
    stage.send(join(group, protocol_type="connect"))
    stage.send(join(group, "nobody", protocols=(("other", b"x"),)))


@case("a static member, and its return", since=5)
def static(stage: Stage) -> None:
    """A static member that returns without member id gets a new one, and the old one is fenced."""
    group, instance = stage.name("g"), stage.name("i")
    first = stage.send(join(group, instance=instance))
    stage.send(sync(group, first.member_id, first.generation_id, group_instance_id=instance), 5)
    back = stage.send(join(group, instance=instance))
    stage.send(join(group, first.member_id, instance=instance))
    stage.send(join(group, back.member_id, instance=instance))
    stage.send(join(group, "nobody", instance=instance))
    stage.send(join(group, "nobody", instance=stage.name("j")))


@case("after all have left")
def after(stage: Stage) -> None:
    """A member rejoins an empty group with its old id; then one of another protocol type joins.

    At versions that require a member id the join is sent a second time, with the id.
    """
    group = stage.name("g")
    member = create_empty_group(stage, group)
    stage.send(join(group, member.member_id))
    first = stage.send(join(group, protocol_type="other", protocols=(("p", b""),)))
    if first.error_code:
        again = join(group, first.member_id, protocol_type="other", protocols=(("p", b""),))
        stage.send(again)


@case("a group that has only offsets")
def offsets_only(stage: Stage) -> None:
    """A member joins a group that has committed offsets and no members."""
    group = stage.name("g")
    stage.ask(commit(group, filled_topic(stage)))
    first = stage.send(join(group))
    if first.error_code:
        stage.send(join(group, first.member_id))


@case("several protocols, the first that all have is taken")
def protocols(stage: Stage) -> None:
    """The group chooses one of the three protocols that its only member has."""
    group = stage.name("g")
    protocols = (("b", b"1"), ("a", b"2"), ("c", b"3"))
    first = stage.send(join(group, protocols=protocols))
    if first.error_code:
        stage.send(join(group, first.member_id, protocols=protocols))


@case("the same protocol twice")
def same_protocol(stage: Stage) -> None:
    """A member lists the same protocol twice, with different metadata."""
    group = stage.name("g")
    protocols = (("a", b"1"), ("a", b"2"))
    first = stage.send(join(group, protocols=protocols))
    if first.error_code:
        stage.send(join(group, first.member_id, protocols=protocols))


@case("a consumer group with members of both kinds")
def consumer_group(stage: Stage) -> None:
    """Classic members join a consumer group: compatible and incompatible protocols, types,
    timeouts. `c` is an existing classic member, `m` uses the consumer protocol, `x` and `y` are
    unknown."""
    topic, other, group = stage.topic(partitions=3), stage.topic("other", 1), new_group(stage)
    create_mixed_group(stage, group, topic)
    stage.send(classic_join(group, "c", topic, owned=(2,)))
    stage.send(classic_join(group, "c", topic, other, owned=(2,), version=3, rack="r"))
    stage.send(classic_join(group, "c", topic, names=("sticky", "range"), version=0))
    first = stage.send(classic_join(group, "", topic, names=("sticky",)))
    stage.note_member_id(first.member_id)
    stage.send(classic_join(group, first.member_id, topic, names=("sticky",)))
    stage.send(classic_join(group, "x", topic, names=("roundrobin", "range")))
    stage.send(classic_join(group, "y", topic, names=("roundrobin",)))
    stage.send(join(group, "y", protocol_type="connect"))
    stage.send(join(group, "y", protocols=()))
    stage.send(classic_join(group, "m", topic))
    stage.send(join(group, "", session_ms=1))


@case("a subscription to a consumer group that cannot be read")
def malformed_in_consumer_group(stage: Stage) -> None:
    topic, group = stage.topic(), new_group(stage)
    stage.ask(join_consumer(group, "m", topic))
    stage.send(join(group, "c", protocols=(("range", b"\0"),)))


@case("static members of a consumer group", since=5)
def static_in_consumer_group(stage: Stage) -> None:
    """A static classic member of a consumer group is replaced by one with the same instance id."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.ask(join_consumer(group, "m", topic))
    first = stage.send(classic_join(group, "", topic, instance="i"))
    stage.note_member_id(first.member_id)
    stage.send(classic_join(group, first.member_id, topic, instance="i"))
    second = stage.send(classic_join(group, "", topic, instance="i"))
    stage.note_member_id(second.member_id)
    stage.send(classic_join(group, first.member_id, topic, instance="i"))
    stage.send(classic_join(group, second.member_id, topic, instance="j"))
    stage.send(classic_join(group, "z", topic, instance="j"))


case.requests(
    {
        "the empty group": lambda stage: join(""),
        "an unknown member of an unknown group": lambda stage: join(stage.name("g"), "nobody"),
        "no protocols": lambda stage: join(stage.name("g"), protocols=()),
        "no protocol type": lambda stage: join(stage.name("g"), protocol_type=""),
        "a session that is too short": lambda stage: join(stage.name("g"), session_ms=1),
        "a session that is too long": lambda stage: join(stage.name("g"), session_ms=10**9),
        "a session of 0": lambda stage: join(stage.name("g"), session_ms=0),
        "a negative session": lambda stage: join(stage.name("g"), session_ms=-1),
    }
)


@case("a negative time to rebalance", since=1)
def negative_rebalance(stage: Stage) -> None:
    stage.send(join(stage.name("g"), "nobody", rebalance_ms=-5))


@case("an empty instance id", since=5)
def empty_instance(stage: Stage) -> None:
    stage.send(join(stage.name("g"), instance=""))


@case("instance ids that are odd", since=5)
def odd_instances(stage: Stage) -> None:
    for number, instance in enumerate(("a b", "..", "x" * 300, "\u00e9")):
        stage.send(join(stage.name(f"g{number}"), instance=instance))


@case("a reason", since=8)
def reason(stage: Stage) -> None:
    request = join(stage.name("g"))
    request.reason = "r" * 300
    stage.send(request)
