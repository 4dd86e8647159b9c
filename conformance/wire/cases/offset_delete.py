"""Cases of OffsetDelete: groups in each state."""

from __future__ import annotations

from struct import pack

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.conformance.access.requests import GROUP, TOPIC
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import streams_group
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    unknown_topic,
)
from kwire.conformance.wire.cases.consumer_group import (
    MEMBERS,
    groups_in_each_state,
    heartbeat,
    join,
    new_group,
    until_assigned,
)
from kwire.conformance.wire.cases.offset_fetch import ask as ask_offsets
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.OFFSET_DELETE)


def access_request(version: int, topic_id: bytes) -> OffsetDeleteRequest:
    partition = OffsetDeleteRequestPartition(0)
    return OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(TOPIC, [partition])])


def delete(group_id: str, topic: CaseTopic, *partitions: int) -> OffsetDeleteRequest:
    """Delete the offsets of some partitions of one topic."""
    entries = [OffsetDeleteRequestPartition(partition) for partition in partitions]
    return OffsetDeleteRequest(group_id, [OffsetDeleteRequestTopic(topic.name, entries)])


@case("what was committed, and what was not")
def committed(stage: Stage) -> None:
    """Committed offsets are deleted, repeated and missing ones too; the rest is read back."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.ask(commit(group, topic, 5))
    stage.ask(commit(group, topic, 5, partition=1))
    stage.send(delete(group, topic, 0, 9, 0))
    stage.send(delete(group, unknown_topic(stage), 0))
    stage.send(ask_offsets(group, None), 8)
    stage.send(delete(group, topic, 1))
    stage.send(delete(group, topic, 1))
    stage.send(ask_offsets(group, None), 8)


@case("a group with members")
def members(stage: Stage) -> None:
    """Offsets of groups with members: a subscribed topic's offsets cannot be deleted.

    The packed bytes are a consumer's subscription: version 0, one topic name, null user data.
    """
    topic = filled_topic(stage)
    plain, subscribed = stage.name("plain"), stage.name("subscribed")
    name = topic.name.encode()
    subscription = pack(">hih", 0, 1, len(name)) + name + pack(">i", -1)
    for group, options in (
        (plain, {}),
        (subscribed, {"protocols": (("range", subscription),)}),
        (stage.name("connect"), {"protocol_type": "connect"}),
    ):
        member = create_stable_group(stage, group, **options)
        stage.ask(commit(group, topic, 5, member_id=member.member_id, generation=1), 2)
        stage.send(delete(group, topic, 0))


@case("an empty group")
def empty(stage: Stage) -> None:
    group = stage.name("g")
    create_empty_group(stage, group)
    stage.send(delete(group, filled_topic(stage), 0))


@case("a consumer group in each state")
def consumer(stage: Stage) -> None:
    """Offsets of consumer groups in each state are deleted, of subscribed and other topics."""
    topic, other = stage.topic(partitions=3), stage.topic("other", 1)
    for suffix, group in groups_in_each_state(stage, topic).items():
        member_id, epoch = MEMBERS[suffix]
        for target in (topic, other):
            stage.ask(commit(group, target, member_id=member_id, generation=epoch))
        for target in (topic, other, unknown_topic(stage)):
            stage.send(delete(group, target, 0, 9))
        for target in (topic, other):
            stage.send(ask_offsets(group, target, 0), 8)


@case("a streams group with members, and without")
def streams(stage: Stage) -> None:
    """Offsets of a streams group are deleted while it has members and after they have left."""
    topic, other = stage.topic(partitions=2), stage.topic("other", 1)
    group = streams_group.new_group(stage)
    streams_group.finish_handover(stage, group, topic)
    for target in (topic, other):
        stage.ask(commit(group, target, member_id="first", generation=3))
        stage.send(delete(group, target, 0, 9))
    for member_id in ("first", "second"):
        stage.ask(streams_group.heartbeat(group, member_id, -1))
    stage.send(delete(group, topic, 0, 9))
    stage.send(ask_offsets(group, topic, 0), 8)


@case("topics that the members of a consumer group were subscribed to, and by a pattern")
def unsubscribed(stage: Stage) -> None:
    """Offsets can be deleted once no member subscribes to the topic, by name or by pattern."""
    topic, other, group = stage.topic(partitions=1), stage.topic("other", 1), new_group(stage)
    for target in (topic, other):
        stage.ask(commit(group, target))
    stage.ask(join(group, "m", topic, other))
    stage.ask(heartbeat(group, "m", 2, subscribed_topic_names=[other.name]))
    stage.send(delete(group, topic, 0))
    stage.send(delete(group, other, 0))
    fields = {"subscribed_topic_names": [], "subscribed_topic_regex": f"{topic.name[:-1]}[t].*"}
    stage.ask(heartbeat(group, "m", -1))
    until_assigned(stage, group, "m", **fields)
    stage.send(delete(group, topic, 0))
    stage.send(delete(group, other, 0))


case.requests(
    {
        "an unknown group": lambda stage: delete(stage.name("g"), filled_topic(stage), 0),
        "the empty group": lambda stage: delete("", filled_topic(stage), 0),
        "no topics": lambda stage: OffsetDeleteRequest(stage.name("g")),
    }
)
