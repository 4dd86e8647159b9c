"""Cases of DeleteShareGroupOffsets: deleting a share group's start offsets of topics."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.conformance.access.requests import GROUP, MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.share_group import (
    fetch,
    heartbeat,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.cases.share_offsets import (
    alter,
    create_empty_reader,
    create_reader,
    delete,
    describe,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_SHARE_GROUP_OFFSETS)


def access_request(version: int, topic_id: bytes) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic(MISSING)])


@case("a group without members")
def empty(stage: Stage) -> None:
    """The start offset of a group without members is deleted; a later member starts anew."""
    group, topic = create_empty_reader(stage)
    stage.ask(alter(group, (topic.name, [(0, 3)])))
    stage.send(delete(group, topic.name))
    stage.send(describe(group))
    stage.send(describe(group, (topic.name, [0])))
    stage.send(delete(group, topic.name))
    stage.send(ShareGroupDescribeRequest([group]))
    join_until_assigned(stage, group, "later", topic)
    stage.send(fetch(group, "later", 0, topic))


@case("topics that it has not read, or that are not there")
def unread(stage: Stage) -> None:
    """Offsets of topics that the group has not read, or that do not exist, are deleted."""
    group, topic = create_empty_reader(stage)
    other = stage.topic("other")
    stage.await_cluster_changes()
    stage.send(delete(group, stage.name("none"), topic.name, other.name))
    stage.send(delete(group, other.name))
    stage.send(delete(group))


@case("a topic twice")
def twice(stage: Stage) -> None:
    group, topic = create_empty_reader(stage)
    stage.send(delete(group, topic.name, topic.name))


@case("a topic that is gone")
def delete_and_wait(stage: Stage) -> None:
    """The offsets of a topic that has been deleted are deleted."""
    group, topic = new_group(stage), stage.topic()
    join_until_assigned(stage, group, "m", topic)
    stage.ask(heartbeat(group, "m", -1))
    stage.delete_and_wait(topic)
    stage.await_cluster_changes()
    stage.send(delete(group, topic.name))
    stage.send(describe(group))


@case("a group with members")
def members(stage: Stage) -> None:
    """Offsets can be deleted only after the last member has left."""
    group, topic = create_reader(stage)
    stage.send(delete(group, topic.name))
    stage.send(delete(group, stage.name("none")))
    stage.ask(heartbeat(group, "m", -1))
    stage.send(delete(group, topic.name))


@case("groups that are not there, or of another kind")
def others(stage: Stage) -> None:
    """Offsets of groups that do not exist, of a classic group and of an empty group id are
    deleted."""
    topic = stage.topic()
    stage.await_cluster_changes()
    create_stable_group(stage, stage.name("c"))
    for group in (stage.name("none"), stage.name("c"), "", new_group(stage)):
        stage.send(delete(group, topic.name))
        stage.send(delete(group))
