"""DeleteShareGroupState: a group reads a partition no longer."""

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
    begun,
    delete,
    initialize,
    read,
    sends_what_cannot_be,
    summary,
    write,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_SHARE_GROUP_STATE)


def access_request(version: int, topic_id: bytes) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(GROUP, [DeleteStateData(topic_id, [PartitionData(INDEX)])])


case("what cannot be")(sends_what_cannot_be)


@case("and it begins anew, with earlier epochs")
def begins_anew(stage: Stage) -> None:
    group, topic = begun(stage, 5)
    stage.send(write(group, topic.id, epoch=5, leader_epoch=3))
    stage.send(delete(group, topic.id, 1, 0, 0))
    stage.send(delete(group, topic.id))
    stage.send(read(group, topic.id))
    stage.send(write(group, topic.id, epoch=5, leader_epoch=3))
    stage.send(summary(group, topic.id))
    stage.send(initialize(group, topic.id, 1))
    stage.send(read(group, topic.id))
