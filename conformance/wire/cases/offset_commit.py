"""Cases of OffsetCommit: from members and others, and for unknown partitions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.conformance.access.requests import GROUP, INDEX, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import streams_group
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join_first_member,
    no_topic,
    unknown_topic,
)
from kwire.conformance.wire.cases.consumer_group import (
    WORDS,
    finish_handover,
    groups_in_each_state,
    heartbeat,
    join,
    new_group,
)
from kwire.conformance.wire.cases.offset_fetch import ask as ask_offsets
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.OFFSET_COMMIT)


def access_request(version: int, topic_id: bytes) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(INDEX)
    topics = [OffsetCommitRequestTopic(TOPIC, topic_id, [partition])]
    return OffsetCommitRequest(GROUP, topics=topics)


@case("by nobody, and read back")
def simple(stage: Stage) -> None:
    """Commits without a member: offsets go back too, and beyond the end of the log."""
    group, topic = stage.name("g"), filled_topic(stage)
    stage.send(commit(group, topic, 5))
    stage.send(commit(group, topic, 3, metadata=""))
    stage.send(commit(group, topic, 10**15, partition=1, metadata=None))
    stage.send(ask_offsets(group, topic, 0, 1), 8)


@case("offsets below 0")
def negative(stage: Stage) -> None:
    """Negative offsets are committed and read back."""
    group, topic = stage.name("g"), filled_topic(stage)
    for offset in (-1, -7):
        stage.send(commit(group, topic, offset))
    stage.send(ask_offsets(group, topic, 0, 1), 8)


@case("the record's leader epoch", since=6)
def epoch(stage: Stage) -> None:
    """Commits have a leader epoch: none, current, ahead and invalid."""
    group, topic = stage.name("g"), filled_topic(stage)
    for number in (-1, 0, 7, -5):
        stage.send(commit(group, topic, 5, leader_epoch=number))
        stage.send(ask_offsets(group, topic, 0), 8)


@case("by a member, in each state")
def members(stage: Stage) -> None:
    """A member commits in each state of a classic group, in the right and in wrong generations.

    An unknown member and a commit without member follow.
    """
    topic = filled_topic(stage)
    awaiting, settled, left = (stage.name(name) for name in ("awaiting", "stable", "left"))
    for group, prepare in (
        (awaiting, join_first_member),
        (settled, create_stable_group),
        (left, create_empty_group),
    ):
        member = prepare(stage, group)
        for generation in (1, 0, 2, -1):
            stage.send(commit(group, topic, member_id=member.member_id, generation=generation))
        stage.send(commit(group, topic, member_id="nobody", generation=1))
        stage.send(commit(group, topic))


@case("static: the instance and another's", since=7)
def static(stage: Stage) -> None:
    """A static member commits with the right, another and no instance id."""
    group, instance, topic = stage.name("g"), stage.name("i"), filled_topic(stage)
    member = create_stable_group(stage, group, instance=instance)
    for name in (instance, "other", None):
        stage.send(
            commit(group, topic, member_id=member.member_id, generation=1, group_instance_id=name)
        )
    stage.send(commit(group, topic, member_id="nobody", generation=1, group_instance_id=instance))


@case("by members of a consumer group, in each epoch")
def consumer_members(stage: Stage) -> None:
    """Members of consumer groups in each state commit partitions 0 and 2 with each epoch."""
    topic = stage.topic(partitions=3)
    for group in groups_in_each_state(stage, topic).values():
        for member_id, epoch in WORDS:
            for partition in (0, 2):
                stage.send(
                    commit(group, topic, partition=partition, member_id=member_id, generation=epoch)
                )
        stage.send(ask_offsets(group, topic, 0, 1, 2), 8)


@case("by a member of a consumer group, several partitions and one that is not its own")
def consumer_partitions(stage: Stage) -> None:
    """A member commits several partitions at once, also of topics that are not assigned to it."""
    topic, other, group = stage.topic(partitions=3), stage.topic("other", 1), new_group(stage)
    finish_handover(stage, group, topic)
    for epoch in (3, 2):
        request = commit(group, topic, member_id="first", generation=epoch)
        request.topics[0].partitions += commit(group, topic, partition=1).topics[0].partitions
        stage.send(request)
        request.topics += commit(group, other).topics
        request.topics += commit(group, unknown_topic(stage)).topics
        stage.send(request)
    for target in (topic, other):
        stage.send(ask_offsets(group, target, 0, 1), 8)


@case("by members of a streams group, in each epoch")
def streams_members(stage: Stage) -> None:
    """Members of a streams group commit with each epoch, for assigned and other partitions.

    A group without members takes commits without a member id.
    """
    topic, other = stage.topic(partitions=3), stage.topic("other")
    group = streams_group.new_group(stage)
    streams_group.finish_handover(stage, group, topic)
    for member_id, epoch in (*streams_group.WORDS, ("", -1)):
        for partition in (0, 1, 2):
            stage.send(
                commit(group, topic, partition=partition, member_id=member_id, generation=epoch)
            )
        stage.send(commit(group, other, member_id=member_id, generation=epoch))
    stage.send(ask_offsets(group, topic, 0, 1, 2), 8)
    empty = streams_group.new_group(stage, "empty")
    stage.ask(streams_group.join(empty, "m", streams_group.copying("gone")))
    stage.ask(streams_group.heartbeat(empty, "m", -1))
    for member_id, epoch in (("", -1), ("m", 2)):
        stage.send(commit(empty, topic, member_id=member_id, generation=epoch))


@case("by a static member of a consumer group", since=7)
def consumer_static(stage: Stage) -> None:
    """A static member of a consumer group commits, also after it has left for a while (epoch
    -2)."""
    topic, group = stage.topic(partitions=1), new_group(stage)
    stage.ask(join(group, "m", topic, instance_id="i"))
    for member_id, name in (("m", "i"), ("m", "other"), ("m", None), ("nobody", "i"), ("", "i")):
        request = commit(group, topic, member_id=member_id, generation=2)
        request.group_instance_id = name
        stage.send(request)
    stage.ask(heartbeat(group, "m", -2, instance_id="i"))
    for epoch in (2, -2, -1):
        stage.send(commit(group, topic, member_id="m", generation=epoch))


@case("long words with the offset")
def metadata(stage: Stage) -> None:
    for size in (4096, 4097):
        stage.send(commit(stage.name("g"), filled_topic(stage), metadata="m" * size))


@case("topics and partitions that are not there")
def unknown(stage: Stage) -> None:
    """Offsets of missing topics and partitions are refused; those of an existing one are
    committed."""
    group, topic = stage.name("g"), filled_topic(stage)
    request = commit(group, topic)
    for other, partition in ((unknown_topic(stage), 0), (topic, 9), (no_topic(), 0)):
        request.topics += commit(group, other, partition=partition).topics
    stage.send(request)
    stage.send(commit(group, unknown_topic(stage)))
    stage.send(commit(group, topic, partition=9))
    stage.send(commit(group, topic, partition=-1))


@case("the same partition twice")
def twice(stage: Stage) -> None:
    """A request commits a partition twice; the read shows which offset remains."""
    group, topic = stage.name("g"), filled_topic(stage)
    request = commit(group, topic, 1)
    request.topics[0].partitions += commit(group, topic, 2).topics[0].partitions
    stage.send(request)
    stage.send(ask_offsets(group, topic, 0), 8)


@case("the same topic twice, known and unknown")
def topic_twice(stage: Stage) -> None:
    """A request has a topic in two entries, existing and missing ones."""
    group, topic, other = stage.name("g"), filled_topic(stage), unknown_topic(stage)
    for target in (topic, other):
        request = commit(group, target, 1)
        request.topics += commit(group, target, 2, partition=1).topics
        stage.send(request)


@case("a generation without a member")
def generation(stage: Stage) -> None:
    stage.send(commit(stage.name("g"), filled_topic(stage), generation=3, member_id="m"))
    stage.send(commit(stage.name("g"), filled_topic(stage), generation=0))
    stage.send(commit(stage.name("g"), filled_topic(stage), member_id="m"))


case.requests(
    {
        "the empty group": lambda stage: commit("", filled_topic(stage)),
        "no topics": lambda stage: OffsetCommitRequest(stage.name("g")),
        "no partitions": lambda stage: OffsetCommitRequest(
            stage.name("g"),
            topics=[OffsetCommitRequestTopic(filled_topic(stage).name, filled_topic(stage).id)],
        ),
    }
)
case.requests(
    {
        "a time to keep it": lambda stage: commit(
            stage.name("g"), filled_topic(stage), retention_time_ms=60_000
        )
    },
    until=4,
)
