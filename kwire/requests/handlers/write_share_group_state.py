"""WriteShareGroupState (key 85): v0-1.

Behaviour
- The leader of partitions says what became of their records since it said so last, as batches of
  offsets; where they overlap, more deliveries count, and of as many the higher state.
- FENCED_LEADER_EPOCH for who is not the last leader, FENCED_STATE_EPOCH for who has not heard that
  the group begins anew, INVALID_REQUEST for a partition that no group has begun to read.
- UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS for each partition.
- Without a group, or with a topic without partitions, nothing is done and answered.

Version notes: how many records are done with behind the start offset from v1 (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.state import Written, batches_of
from kwire.coordinators.share_partitions.stating import ask_of_each, names_nothing
from kwire.requests.context import Context


def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: Context
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    if names_nothing(request.group_id, request.topics):
        return WriteShareGroupStateResponse()
    coordinator = broker.coordinators.share
    return ask_of_each(
        request.group_id,
        request.topics,
        lambda key, each: coordinator.write(key, _written(each)),
        _told,
        _response,
    )


def _written(each: PartitionData) -> Written:
    return Written(
        each.state_epoch,
        each.leader_epoch,
        each.start_offset,
        each.delivery_complete_count,
        batches_of(each.state_batches),
    )


def _told(partition: int, answer: Answer) -> PartitionResult:
    return PartitionResult(partition, answer.error, answer.message)


def _response(told: dict[bytes, list[PartitionResult]]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        [WriteStateResult(topic_id, results) for topic_id, results in told.items()]
    )
