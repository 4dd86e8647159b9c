"""Cases of WriteShareGroupState: the states of records, from each leader epoch."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.write_share_group_state import (
    PartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from kwire.conformance.access.requests import GROUP, INDEX
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    read,
    send_invalid_partitions,
    start_reading,
    summary,
    write,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.WRITE_SHARE_GROUP_STATE)


def access_request(version: int, topic_id: bytes) -> WriteShareGroupStateRequest:
    return WriteShareGroupStateRequest(GROUP, [WriteStateData(topic_id, [PartitionData(INDEX)])])


case("what cannot be")(send_invalid_partitions)


@case("epochs of the group and of the leader")
def epochs(stage: Stage) -> None:
    """Writes have current, old and new epochs of the state and of the partition's leader.

    The group's state epoch is 3; older epochs are fenced.
    """
    group, topic = start_reading(stage, 3)
    for epoch, leader_epoch in (
        *((3, 5), (2, 5), (3, 4), (4, 5), (3, 6), (-1, -1), (-1, 6), (3, -4), (3, 5)),
    ):
        stage.send(write(group, topic.id, epoch=epoch, leader_epoch=leader_epoch))
        stage.send(summary(group, topic.id))


@case("batches that overlap, and a start that moves")
def batches(stage: Stage) -> None:
    """State batches overlap, and the start offset moves: batches before it disappear.

    -1 leaves the start offset as it is.
    """
    group, topic = start_reading(stage, 1, 10)
    for start, batches in (
        (10, [(10, 19, AVAILABLE, 1), (12, 14, ACKNOWLEDGED, 1), (18, 25, ARCHIVED, 2)]),
        (13, [(13, 13, AVAILABLE, 3)]),
        (-1, [(30, 39, AVAILABLE, 1)]),
        (20, []),
        (15, [(15, 15, AVAILABLE, 1)]),
        (50, [(30, 39, AVAILABLE, 1)]),
    ):
        stage.send(write(group, topic.id, *batches, start=start, complete=len(batches)))
        stage.send(read(group, topic.id))
        stage.send(summary(group, topic.id))


@case("batches that cannot be")
def odd(stage: Stage) -> None:
    """State batches with negative offsets, unknown states or negative counts are written."""
    group, topic = start_reading(stage)
    for state_batch in ((-3, -1, AVAILABLE, 1), (0, 1, 9, 1), (0, 1, 1, -2)):
        stage.send(write(group, topic.id, state_batch, start=0))
        stage.send(read(group, topic.id))


@case("a start that goes back")
def back(stage: Stage) -> None:
    """A write whose start offset is below the stored one, or missing, changes neither that offset
    nor the count of complete records."""
    group, topic = start_reading(stage)
    stage.send(write(group, topic.id, start=20, complete=5))
    for start, complete in (
        *((15, 6), (-7, -9), (-1, 8), (20, 9), (20, 4), (20, -1), (20, -3), (21, -3), (-1, -1)),
    ):
        stage.send(
            write(group, topic.id, (25, 25, ACKNOWLEDGED, 1), start=start, complete=complete)
        )
        stage.send(summary(group, topic.id))
