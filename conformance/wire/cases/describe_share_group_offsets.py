"""Cases of DescribeShareGroupOffsets: a share group's start offsets and lag."""

from __future__ import annotations

import time

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.conformance.access.requests import GROUP, INDEX, MISSING
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.share_group import (
    acknowledge,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.cases.share_offsets import create_empty_reader, create_reader, describe
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)


def access_request(version: int, topic_id: bytes) -> DescribeShareGroupOffsetsRequest:
    """Return a request for a partition of a topic that does not exist."""
    return DescribeShareGroupOffsetsRequest(
        [
            DescribeShareGroupOffsetsRequestGroup(
                GROUP, [DescribeShareGroupOffsetsRequestTopic(MISSING, [INDEX])]
            )
        ]
    )


ACCEPT, RELEASE = 1, 2
GROWN_TIMEOUT_S = 60.0


@case("before anything is read")
def unread(stage: Stage) -> None:
    """Offsets of a group that has read nothing: missing topics, missing and repeated partitions."""
    group, topic = create_empty_reader(stage)
    stage.send(describe(group))
    stage.send(describe(group, (topic.name, [0, 1])))
    stage.send(describe(group, (stage.name("none"), [0]), (topic.name, [0, 9, -1])))
    stage.send(describe(group, (stage.name("none"), [0, 3])))
    stage.send(describe(group, (topic.name, [0]), (topic.name, [0, 1])))
    stage.send(describe(group, (topic.name, [0, 0])))
    stage.send(describe(group, (topic.name, [])))


@case("records in hands, done with, and given back")
def read(stage: Stage) -> None:
    """The start offset and the lag change with each acknowledgement, not with each delivery."""
    group, topic = create_reader(stage)
    stage.send(describe(group, (topic.name, [0])))
    for epoch, acknowledgement in enumerate(
        ((0, 1, [ACCEPT]), (4, 5, [ACCEPT]), (2, 2, [RELEASE]), (2, 3, [ACCEPT])), 1
    ):
        stage.ask(acknowledge(group, "m", epoch, topic, acknowledgement))
        stage.send(describe(group, (topic.name, [0])))


@case("a topic that grows")
def growing(stage: Stage) -> None:
    """A group reads a new partition of its topic from the first record, and the others as set."""
    topic, group = stage.topic(partitions=1), new_group(stage, share_auto_offset_reset="latest")
    join_until_assigned(stage, group, "m", topic)
    stage.send(describe(group))
    stage.ask(CreatePartitionsRequest([CreatePartitionsTopic(topic.name, 2, None)], 30_000))
    stage.await_cluster_changes()
    deadline = time.monotonic() + GROWN_TIMEOUT_S
    while True:
        assignment = stage.ask(join(group, "m", topic)).assignment
        if assignment is not None and assignment.topic_partitions[0].partitions == [0, 1]:
            break
        assert time.monotonic() < deadline, "the member has not got the new partition"
        time.sleep(0.1)
    stage.send(describe(group))


@case("groups that are not there, or of another kind")
def others(stage: Stage) -> None:
    """Offsets of groups that do not exist, of a classic group and of an empty group id are
    described."""
    topic = stage.topic()
    stage.await_cluster_changes()
    create_stable_group(stage, stage.name("c"))
    for group in (stage.name("none"), stage.name("c"), "", new_group(stage)):
        stage.send(describe(group))
        stage.send(describe(group, (topic.name, [0])))


@case("several groups, and one without topics")
def several(stage: Stage) -> None:
    """One request describes several groups, one of them without topics; the next has no group."""
    group, topic = create_empty_reader(stage)
    request = describe(group, (topic.name, [0]))
    request.groups.append(DescribeShareGroupOffsetsRequestGroup(group, []))
    request.groups += describe(stage.name("none")).groups
    stage.send(request)
    stage.send(DescribeShareGroupOffsetsRequest([]))
