"""Cases of DeleteShareGroupState: deleting the state of a partition that a group has read."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    PartitionData,
)
from kwire.conformance.access.requests import GROUP, INDEX
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.share_state import (
    delete,
    initialize,
    read,
    send_invalid_partitions,
    start_reading,
    summary,
    write,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_SHARE_GROUP_STATE)


def access_request(version: int, topic_id: bytes) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(GROUP, [DeleteStateData(topic_id, [PartitionData(INDEX)])])


case("what cannot be")(send_invalid_partitions)


@case("and it begins anew, with earlier epochs")
def begins_anew(stage: Stage) -> None:
    """After a deletion the state can be written and initialized with earlier epochs."""
    group, topic = start_reading(stage, 5)
    stage.send(write(group, topic.id, epoch=5, leader_epoch=3))
    stage.send(delete(group, topic.id, 1, 0, 0))
    stage.send(delete(group, topic.id))
    stage.send(read(group, topic.id))
    stage.send(write(group, topic.id, epoch=5, leader_epoch=3))
    stage.send(summary(group, topic.id))
    stage.send(initialize(group, topic.id, 1))
    stage.send(read(group, topic.id))
