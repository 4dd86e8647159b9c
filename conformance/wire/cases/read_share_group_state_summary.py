"""Cases of ReadShareGroupStateSummary: a group's start offset, read without fencing a leader."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kwire.conformance.access.requests import GROUP, INDEX
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.share_state import (
    ACKNOWLEDGED,
    read,
    send_invalid_partitions,
    start_reading,
    summary,
    write,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)


def access_request(version: int, topic_id: bytes) -> ReadShareGroupStateSummaryRequest:
    return ReadShareGroupStateSummaryRequest(
        GROUP, [ReadStateSummaryData(topic_id, [PartitionData(INDEX)])]
    )


case("what cannot be")(send_invalid_partitions)


@case("whatever the leader's epoch")
def epochs(stage: Stage) -> None:
    """A summary is the same for each leader epoch, and does not fence the leader of epoch 4."""
    group, topic = start_reading(stage, 2, 5)
    stage.send(summary(group, topic.id, 0, 0, 1))
    stage.send(
        write(
            group, topic.id, (5, 6, ACKNOWLEDGED, 1), epoch=2, leader_epoch=4, start=7, complete=3
        )
    )
    for leader_epoch in (4, 3, 9, -1):
        stage.send(summary(group, topic.id, leader_epoch))
    stage.send(read(group, topic.id, 4))
