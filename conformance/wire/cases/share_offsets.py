"""Requests and groups that the cases on the offsets of share groups share."""

from __future__ import annotations

from kwire.codecs.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
)
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kwire.codecs.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import filled_topic
from kwire.conformance.wire.cases.share_group import (
    fetch,
    heartbeat,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage


def describe(group: str, *topics: tuple[str, list[int]]) -> DescribeShareGroupOffsetsRequest:
    """Return a request for the start offsets of these partitions, or of all without any."""
    requested = [
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(*each) for each in topics
    ]
    return DescribeShareGroupOffsetsRequest(
        [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group, requested or None
            )
        ]
    )


def alter(group: str, *topics: tuple[str, list[tuple[int, int]]]) -> AlterShareGroupOffsetsRequest:
    """Return a request that sets the start offsets of partitions."""
    return AlterShareGroupOffsetsRequest(
        group,
        [
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                name,
                [
                    alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(*each)
                    for each in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


def delete(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    """Return a request that deletes the group's start offsets of these topics."""
    return DeleteShareGroupOffsetsRequest(
        group,
        [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(name) for name in topics],
    )


def create_empty_reader(stage: Stage) -> tuple[str, CaseTopic]:
    """Return a group without members that has initialized a topic and read no record of it."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "m", topic)
    stage.ask(heartbeat(group, "m", -1))
    return group, topic


def create_reader(stage: Stage) -> tuple[str, CaseTopic]:
    """Return a group whose member `m` has acquired records of a topic, and the topic."""
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "m", topic)
    stage.ask(fetch(group, "m", 0, topic))
    return group, topic
