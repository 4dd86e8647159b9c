"""Cases of InitializeShareGroupState: a group starts to read a partition, or starts again."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.conformance.access.requests import GROUP, INDEX
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.share_state import (
    AVAILABLE,
    initialize,
    new_group_and_topic,
    read,
    send_invalid_partitions,
    state_topic,
    summary,
    write,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.INITIALIZE_SHARE_GROUP_STATE)


def access_request(version: int, topic_id: bytes) -> InitializeShareGroupStateRequest:
    return InitializeShareGroupStateRequest(
        GROUP, [InitializeStateData(topic_id, [PartitionData(INDEX)])]
    )


case("what cannot be")(send_invalid_partitions)


@case("again, and with other epochs")
def again(stage: Stage) -> None:
    """A state is initialized again with equal, older and newer state epochs; each result is
    read."""
    state_topic(stage)
    group, topic = new_group_and_topic(stage, 3)
    for epoch, start in ((3, -1), (3, 7), (2, 9), (5, 4), (-1, 2), (0, 1)):
        stage.send(initialize(group, topic.id, epoch, start))
        stage.send(read(group, topic.id))
        stage.send(summary(group, topic.id))


@case("several partitions at once, one of them twice")
def several(stage: Stage) -> None:
    """One request initializes partitions 2, 0, 2 and 5, one of them twice and one missing."""
    state_topic(stage)
    group, topic = new_group_and_topic(stage, 3)
    stage.send(initialize(group, topic.id, 1, 0, 2, 0, 2, 5))
    stage.send(summary(group, topic.id, 0, 0, 1, 2))


@case("what was written goes")
def anew(stage: Stage) -> None:
    """A new state epoch discards the batches that were written in the previous one."""
    state_topic(stage)
    group, topic = new_group_and_topic(stage)
    stage.send(initialize(group, topic.id))
    stage.send(write(group, topic.id, (0, 4, AVAILABLE, 1), leader_epoch=4, complete=2))
    stage.send(initialize(group, topic.id, 2, 3))
    stage.send(read(group, topic.id, 3))
    stage.send(read(group, topic.id, 4))
    stage.send(summary(group, topic.id))
