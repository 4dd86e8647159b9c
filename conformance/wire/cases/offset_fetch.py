"""Cases of OffsetFetch: some and all partitions, of existing and unknown groups."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
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
    no_topic,
    unknown_topic,
)
from kwire.conformance.wire.cases.consumer_group import (
    MEMBERS,
    WORDS,
    finish_handover,
    groups_in_each_state,
    new_group,
)
from kwire.conformance.wire.stage import NotApplicable, Stage

case = Cases(ApiKey.OFFSET_FETCH)


def access_request(version: int, topic_id: bytes) -> OffsetFetchRequest:
    """Return a request for one partition of one group, in the form of this version."""
    if version < 8:
        return OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [0])])
    topics = [OffsetFetchRequestTopics(TOPIC, topic_id, [0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)])


def ask(group_id: str, topic: CaseTopic | None, *partitions: int) -> OffsetFetchRequest:
    """Build a request as of version 8, with a list of groups; no topic means all offsets."""
    topics = None
    if topic is not None:
        topics = [OffsetFetchRequestTopics(topic.name, topic.id, list(partitions))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)])


def either(
    stage: Stage, group_id: str, topic: CaseTopic | None, *partitions: int
) -> OffsetFetchRequest:
    """Build a request in the form of the stage's version."""
    if stage.version >= 8:
        return ask(group_id, topic, *partitions)
    if topic is None:
        return OffsetFetchRequest(group_id, None)
    return OffsetFetchRequest(group_id, [OffsetFetchRequestTopic(topic.name, list(partitions))])


@case("what was committed")
def committed(stage: Stage) -> None:
    """Offsets that were committed are read, also of missing, repeated and unknown partitions."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.ask(commit(group, topic, 5))
    stage.send(either(stage, group, topic, 0))
    stage.send(either(stage, group, topic, 0, 1, 9, -1, 0))
    stage.send(either(stage, group, unknown_topic(stage), 0))
    stage.send(either(stage, group, no_topic(), 0))
    stage.send(either(stage, group, topic))


@case("all", since=2)
def everything(stage: Stage) -> None:
    """All offsets of a group are read, before and after the first commits."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.send(either(stage, group, None))
    stage.ask(commit(group, topic, 5, leader_epoch=0))
    stage.ask(commit(group, topic, 6, partition=1, metadata=""))
    stage.send(either(stage, group, None))


@case("of a deleted topic")
def deleted(stage: Stage) -> None:
    group, topic = stage.name("g"), stage.topic()
    stage.ask(commit(group, topic, 5))
    stage.send(either(stage, group, topic, 0))


@case("in each state")
def states(stage: Stage) -> None:
    """Groups without offsets are read: a stable one, and one whose member has left."""
    topic = filled_topic(stage)
    settled, left = stage.name("stable"), stage.name("left")
    create_stable_group(stage, settled)
    create_empty_group(stage, left)
    for group in (settled, left):
        stage.send(either(stage, group, topic, 0))


@case("stable offsets only", since=7)
def require_stable(stage: Stage) -> None:
    """Stable offsets are read from a group without transactions."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.ask(commit(group, topic, 5))
    request = either(stage, group, topic, 0, 1)
    request.require_stable = True
    stage.send(request)


@case("several groups", since=8)
def several(stage: Stage) -> None:
    """One request reads several groups: known, unknown, with an empty id, and repeated."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.ask(commit(group, topic, 5))
    request = ask(group, topic, 0)
    for other in (stage.name("h"), "", group):
        request.groups += ask(other, topic, 0, 1).groups
    request.groups += ask(stage.name("h"), None).groups
    stage.send(request)


@case("as a member", since=9)
def as_member(stage: Stage) -> None:
    """A member of a classic group names its id and epoch; wrong ones are tried too."""
    group, topic = stage.name("g"), filled_topic(stage)
    member = create_stable_group(stage, group)
    for name, epoch in ((member.member_id, 1), (member.member_id, 5), ("nobody", 1), (None, 3)):
        request = ask(group, topic, 0)
        request.groups[0].member_id, request.groups[0].member_epoch = name, epoch
        stage.send(request)


@case("of a consumer group")
def consumer(stage: Stage) -> None:
    """Offsets of consumer groups in each state are read."""
    topic = stage.topic(partitions=3)
    for suffix, group in groups_in_each_state(stage, topic).items():
        member_id, epoch = MEMBERS[suffix]
        stage.ask(commit(group, topic, member_id=member_id, generation=epoch))
        stage.send(either(stage, group, topic, 0, 1))


@case("as a member of a consumer group", since=9)
def as_consumer_member(stage: Stage) -> None:
    """Members of consumer groups in each state name right and wrong epochs.

    The last request has a wrong epoch for one entry only, so the other one gets its offsets.
    """
    topic = stage.topic(partitions=3)
    for group in groups_in_each_state(stage, topic).values():
        for name, epoch in (*WORDS, (None, -1)):
            request = ask(group, topic, 0)
            request.groups[0].member_id, request.groups[0].member_epoch = name, epoch
            stage.send(request)
        request = ask(group, None)
        request.groups[0].member_id, request.groups[0].member_epoch = "first", 9
        request.groups += ask(group, topic, 0).groups
        stage.send(request)


@case("as a member of a streams group", since=9)
def as_streams_member(stage: Stage) -> None:
    """Members of a streams group name right and wrong epochs."""
    topic, group = stage.topic(partitions=3), streams_group.new_group(stage)
    streams_group.finish_handover(stage, group, topic)
    stage.ask(commit(group, topic, member_id="first", generation=3))
    for name, epoch in (*streams_group.WORDS, (None, -1)):
        request = ask(group, topic, 0)
        request.groups[0].member_id, request.groups[0].member_epoch = name, epoch
        stage.send(request)


@case("as nobody, with an epoch, of a consumer group", since=9)
def as_nobody(stage: Stage) -> None:
    """A member epoch without a member id is sent to a consumer group."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    finish_handover(stage, group, topic)
    request = ask(group, topic, 0)
    request.groups[0].member_id, request.groups[0].member_epoch = None, 3
    stage.send(request)


@case("no groups", since=8)
def no_groups(stage: Stage) -> None:
    stage.send(OffsetFetchRequest())


@case("null topics in the version that has none", until=1)
def null_topics(stage: Stage) -> None:
    if stage.version > 1:
        raise NotApplicable
    stage.send_bytes(b"\0\1g\xff\xff\xff\xff")


case.requests(
    {
        "an unknown group": lambda stage: either(stage, stage.name("g"), filled_topic(stage), 0),
        "the empty group": lambda stage: either(stage, "", filled_topic(stage), 0),
    }
)
