"""Cases of AlterShareGroupOffsets: moving the start offsets of a share group."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.conformance.access.requests import GROUP, INDEX, MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.share_group import fetch, join_until_assigned, new_group
from kwire.conformance.wire.cases.share_offsets import (
    alter,
    create_empty_reader,
    create_reader,
    describe,
)
from kwire.conformance.wire.cases.share_state import summary
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_SHARE_GROUP_OFFSETS)


def access_request(version: int, topic_id: bytes) -> AlterShareGroupOffsetsRequest:
    """Return a request for a partition of a topic that does not exist."""
    return AlterShareGroupOffsetsRequest(
        GROUP,
        [
            AlterShareGroupOffsetsRequestTopic(
                MISSING, [AlterShareGroupOffsetsRequestPartition(INDEX)]
            )
        ],
    )


@case("a group without members")
def empty(stage: Stage) -> None:
    """The start offset of a group without members is moved, also beyond the end and below zero.

    The group epoch, the state and the records that a later member reads show the effect.
    """
    group, topic = create_empty_reader(stage)
    stage.send(ShareGroupDescribeRequest([group]))
    for offset in (3, 0, 500, -1, -5):
        stage.send(alter(group, (topic.name, [(0, offset)])))
        stage.send(describe(group))
    stage.send(ShareGroupDescribeRequest([group]))
    stage.send(alter(group, (topic.name, [(0, 2)])))
    stage.send(summary(group, topic.id))
    join_until_assigned(stage, group, "later", topic)
    stage.send(fetch(group, "later", 0, topic))


@case("topics that it has not read, and partitions that are not there")
def unread(stage: Stage) -> None:
    """Offsets are set for a topic that the group has not read, and for missing topics and
    partitions."""
    group, topic = create_empty_reader(stage)
    other = stage.topic("other", partitions=2)
    stage.await_cluster_changes()
    stage.send(alter(group, (other.name, [(1, 7), (2, 7)])))
    stage.send(describe(group, (other.name, [0, 1])))
    stage.send(describe(group))
    stage.send(alter(group, (stage.name("none"), [(0, 1)]), (topic.name, [(0, 1)])))
    stage.send(alter(group, (topic.name, [])))
    stage.send(alter(group))


@case("a group with members")
def members(stage: Stage) -> None:
    group, topic = create_reader(stage)
    stage.send(alter(group, (topic.name, [(0, 1)])))
    stage.send(alter(group, (stage.name("none"), [(0, 1)]), (topic.name, [(0, 1)])))


@case("groups that are not there, or of another kind")
def others(stage: Stage) -> None:
    """Offsets of groups that do not exist, of a classic group and of an empty group id are altered.

    Each group is described afterwards, which shows whether the request created it.
    """
    topic = stage.topic()
    stage.await_cluster_changes()
    create_stable_group(stage, stage.name("c"))
    for group in (stage.name("none"), stage.name("c"), "", new_group(stage)):
        stage.send(alter(group))
        stage.send(ShareGroupDescribeRequest([group]))
        stage.send(alter(group, (topic.name, [(0, 1)])))
        stage.send(ShareGroupDescribeRequest([group]))
        stage.send(describe(group))
        stage.send(summary(group, topic.id))


@case("a partition below 0")
def negative(stage: Stage) -> None:
    group, topic = create_empty_reader(stage)
    stage.send(alter(group, (topic.name, [(0, 1), (-1, 1)])))
    stage.send(describe(group))


@case("a topic and a partition twice")
def twice(stage: Stage) -> None:
    """A request names the same partition or topic twice; the offsets are read after each."""
    group, topic = create_empty_reader(stage)
    stage.send(alter(group, (topic.name, [(0, 1), (0, 2)])))
    stage.send(describe(group))
    stage.send(alter(group, (topic.name, [(0, 3)]), (topic.name, [(0, 4), (1, 5)])))
    stage.send(describe(group))
