"""Cases of ReadShareGroupState: a partition leader starts, and fences its predecessors."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
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

case = Cases(ApiKey.READ_SHARE_GROUP_STATE)


def access_request(version: int, topic_id: bytes) -> ReadShareGroupStateRequest:
    return ReadShareGroupStateRequest(GROUP, [ReadStateData(topic_id, [PartitionData(INDEX)])])


case("what cannot be")(send_invalid_partitions)


@case("what was written, and who may")
def epochs(stage: Stage) -> None:
    """A read with a newer leader epoch fences the writes of earlier leaders.

    Each read is followed by a summary, which shows the leader epoch that the coordinator knows.
    """
    group, topic = start_reading(stage)
    stage.send(read(group, topic.id))
    for leader_epoch in (2, 1, 2, -1, 3):
        stage.send(read(group, topic.id, leader_epoch))
        stage.send(summary(group, topic.id))
    stage.send(write(group, topic.id, (0, 9, AVAILABLE, 1), leader_epoch=2))
    stage.send(write(group, topic.id, (0, 9, AVAILABLE, 1), leader_epoch=3))
    stage.send(write(group, topic.id, (3, 3, ACKNOWLEDGED, 2), leader_epoch=3, complete=1))
    stage.send(write(group, topic.id, (4, 6, ARCHIVED, 1), leader_epoch=3, start=2, complete=4))
    stage.send(read(group, topic.id, 3))
    stage.send(read(group, topic.id, 4))
