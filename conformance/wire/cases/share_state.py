"""Requests and topics that the cases on the share coordinator share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kwire.codecs.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.codecs.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.codecs.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.codecs.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.codecs.messages.write_share_group_state import WriteShareGroupStateRequest
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.share_group import heartbeat, join_until_assigned, new_group
from kwire.conformance.wire.stage import Stage

NOBODYS_TOPIC = b"\x07" * 16
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

StateBatch = tuple[int, int, int, int]
"""First offset, last offset, state, delivery count."""


def state_topic(stage: Stage) -> None:
    """Have the broker create `__share_group_state`, which the first assignment does."""
    group, topic = new_group(stage, "maker"), stage.topic("made")
    join_until_assigned(stage, group, "m", topic)
    stage.ask(heartbeat(group, "m", -1))


def new_group_and_topic(stage: Stage, partitions: int = 1) -> tuple[str, CaseTopic]:
    """Return a group id, and a topic that the share coordinator knows."""
    topic = stage.topic(partitions=partitions)
    stage.await_cluster_changes()
    return stage.name("g"), topic


def initialize(
    group: str, topic_id: bytes, epoch: int = 1, start: int = 0, *partitions: int
) -> InitializeShareGroupStateRequest:
    """Return a request that begins the state of these partitions, by default partition 0."""
    requested = initialize_share_group_state.InitializeStateData(
        topic_id,
        [
            initialize_share_group_state.PartitionData(each, epoch, start)
            for each in partitions or (0,)
        ],
    )
    return InitializeShareGroupStateRequest(group, [requested])


def write(
    group: str,
    topic_id: bytes,
    *batches: StateBatch,
    epoch: int = 1,
    leader_epoch: int = 0,
    start: int = 0,
    complete: int = 0,
    partition: int = 0,
) -> WriteShareGroupStateRequest:
    """Return a request that writes state batches of one partition.

    `start` is its new start offset; `complete` is the number of its delivered records.
    """
    state_batches = [write_share_group_state.StateBatch(*each) for each in batches]
    written = write_share_group_state.PartitionData(
        partition, epoch, leader_epoch, start, complete, state_batches
    )
    return WriteShareGroupStateRequest(
        group, [write_share_group_state.WriteStateData(topic_id, [written])]
    )


def read(
    group: str, topic_id: bytes, leader_epoch: int = 0, partition: int = 0
) -> ReadShareGroupStateRequest:
    """Return a request for the state of one partition; it names the leader epoch of the reader."""
    requested = read_share_group_state.PartitionData(partition, leader_epoch)
    return ReadShareGroupStateRequest(
        group, [read_share_group_state.ReadStateData(topic_id, [requested])]
    )


def summary(
    group: str, topic_id: bytes, leader_epoch: int = 0, *partitions: int
) -> ReadShareGroupStateSummaryRequest:
    """Return a request for the start offsets of these partitions, by default partition 0."""
    requested = read_share_group_state_summary.ReadStateSummaryData(
        topic_id,
        [
            read_share_group_state_summary.PartitionData(each, leader_epoch)
            for each in partitions or (0,)
        ],
    )
    return ReadShareGroupStateSummaryRequest(group, [requested])


def delete(group: str, topic_id: bytes, *partitions: int) -> DeleteShareGroupStateRequest:
    """Return a request that deletes the state of these partitions, by default partition 0."""
    requested = delete_share_group_state.DeleteStateData(
        topic_id, [delete_share_group_state.PartitionData(each) for each in partitions or (0,)]
    )
    return DeleteShareGroupStateRequest(group, [requested])


REQUESTS: dict[ApiKey, Callable[[str, bytes, int], Any]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: lambda group, topic_id, p: initialize(
        group, topic_id, 1, 0, p
    ),
    ApiKey.READ_SHARE_GROUP_STATE: lambda group, topic_id, p: read(group, topic_id, 0, p),
    ApiKey.WRITE_SHARE_GROUP_STATE: lambda group, topic_id, p: write(group, topic_id, partition=p),
    ApiKey.DELETE_SHARE_GROUP_STATE: delete,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: lambda group, topic_id, p: summary(
        group, topic_id, 0, p
    ),
}
"""A function for each key that builds its request about one partition."""


def incomplete_requests(key: ApiKey, group: str, topic_id: bytes) -> list[Any]:
    """Return requests without a topic, with a topic without partitions, and without a group."""
    sound = REQUESTS[key](group, topic_id, 0)
    no_topic, no_partition, no_group = (REQUESTS[key](group, topic_id, 0) for _ in range(3))
    no_topic.topics = []
    no_partition.topics[0].partitions = []
    no_group.group_id = ""
    no_partition.topics += sound.topics
    return [no_topic, no_partition, no_group]


def send_invalid_partitions(stage: Stage) -> None:
    """Send each key about partitions without a state, and about ones that cannot have a state."""
    state_topic(stage)
    group, topic = new_group_and_topic(stage, 2)
    make = REQUESTS[stage.api_key]
    for request in incomplete_requests(stage.api_key, group, topic.id):
        stage.send(request)
    for topic_id, partition in (
        (topic.id, 0),
        (topic.id, 2),
        (topic.id, -1),
        (NOBODYS_TOPIC, 0),
        (bytes(16), 0),
    ):
        stage.send(make(group, topic_id, partition))


def start_reading(stage: Stage, epoch: int = 1, start: int = 0) -> tuple[str, CaseTopic]:
    """Initialize the state of partition 0 of a new topic; return the group and the topic."""
    state_topic(stage)
    group, topic = new_group_and_topic(stage, 2)
    stage.ask(initialize(group, topic.id, epoch, start))
    return group, topic
