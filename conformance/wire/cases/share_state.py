"""What cases about the share coordinator's requests share."""

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
from kwire.conformance.wire.cases.share_group import assigned, group_of, heartbeat
from kwire.conformance.wire.stage import Stage

NOBODYS_TOPIC = b"\x07" * 16
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

Kept = tuple[int, int, int, int]
"""First offset, last offset, state, how often delivered."""


def state_topic(stage: Stage) -> None:
    """Set-up: have `__share_group_state` made, by a group that has something to read."""
    group, topic = group_of(stage, "maker"), stage.topic("made")
    assigned(stage, group, "m", topic)
    stage.ask(heartbeat(group, "m", -1))


def reader(stage: Stage, partitions: int = 1) -> tuple[str, CaseTopic]:
    """A group, and a topic that the share coordinator knows of."""
    topic = stage.topic(partitions=partitions)
    stage.await_cluster_changes()
    return stage.name("g"), topic


def initialize(
    group: str, topic_id: bytes, epoch: int = 1, start: int = 0, *partitions: int
) -> InitializeShareGroupStateRequest:
    wanted = initialize_share_group_state.InitializeStateData(
        topic_id,
        [
            initialize_share_group_state.PartitionData(each, epoch, start)
            for each in partitions or (0,)
        ],
    )
    return InitializeShareGroupStateRequest(group, [wanted])


def write(
    group: str,
    topic_id: bytes,
    *batches: Kept,
    epoch: int = 1,
    leader_epoch: int = 0,
    start: int = 0,
    complete: int = 0,
    partition: int = 0,
) -> WriteShareGroupStateRequest:
    kept = [write_share_group_state.StateBatch(*each) for each in batches]
    written = write_share_group_state.PartitionData(
        partition, epoch, leader_epoch, start, complete, kept
    )
    return WriteShareGroupStateRequest(
        group, [write_share_group_state.WriteStateData(topic_id, [written])]
    )


def read(
    group: str, topic_id: bytes, leader_epoch: int = 0, partition: int = 0
) -> ReadShareGroupStateRequest:
    wanted = read_share_group_state.PartitionData(partition, leader_epoch)
    return ReadShareGroupStateRequest(
        group, [read_share_group_state.ReadStateData(topic_id, [wanted])]
    )


def summary(
    group: str, topic_id: bytes, leader_epoch: int = 0, *partitions: int
) -> ReadShareGroupStateSummaryRequest:
    wanted = read_share_group_state_summary.ReadStateSummaryData(
        topic_id,
        [
            read_share_group_state_summary.PartitionData(each, leader_epoch)
            for each in partitions or (0,)
        ],
    )
    return ReadShareGroupStateSummaryRequest(group, [wanted])


def delete(group: str, topic_id: bytes, *partitions: int) -> DeleteShareGroupStateRequest:
    wanted = delete_share_group_state.DeleteStateData(
        topic_id, [delete_share_group_state.PartitionData(each) for each in partitions or (0,)]
    )
    return DeleteShareGroupStateRequest(group, [wanted])


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
"""Of each key, about one partition."""


def empties(key: ApiKey, group: str, topic_id: bytes) -> list[Any]:
    """Requests that name nothing: no topic, a topic without a partition, no group."""
    sound = REQUESTS[key](group, topic_id, 0)
    no_topic, no_partition, no_group = (REQUESTS[key](group, topic_id, 0) for _ in range(3))
    no_topic.topics = []
    no_partition.topics[0].partitions = []
    no_group.group_id = ""
    no_partition.topics += sound.topics
    return [no_topic, no_partition, no_group]


def sends_what_cannot_be(stage: Stage) -> None:
    """What each key is told where nothing is kept, or nothing can be."""
    state_topic(stage)
    group, topic = reader(stage, 2)
    make = REQUESTS[stage.api_key]
    for request in empties(stage.api_key, group, topic.id):
        stage.send(request)
    for topic_id, partition in (
        (topic.id, 0),
        (topic.id, 2),
        (topic.id, -1),
        (NOBODYS_TOPIC, 0),
        (bytes(16), 0),
    ):
        stage.send(make(group, topic_id, partition))


def begun(stage: Stage, epoch: int = 1, start: int = 0) -> tuple[str, CaseTopic]:
    """A partition that a group begins to read."""
    state_topic(stage)
    group, topic = reader(stage, 2)
    stage.ask(initialize(group, topic.id, epoch, start))
    return group, topic
