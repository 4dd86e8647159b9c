"""WriteShareGroupState (key 85): v0-1.

Behaviour
- Sent by the leader of partitions to store the state of their records since its last write, as
  batches of offsets.  If batches overlap, the higher delivery count wins, then the higher state.
- Each partition has its own error: FENCED_LEADER_EPOCH for an earlier leader, FENCED_STATE_EPOCH if
  the group has started again since, INVALID_REQUEST for a partition without share state,
  UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
- Without a group, or with a topic without partitions, it does nothing and the response is empty.

Version notes: the number of completed deliveries after the start offset from v1 (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.state import ShareStateWrite, batches_of
from kwire.coordinators.share_partitions.state_requests import is_empty_request, submit_each
from kwire.requests.context import Context
from kwire.requests.guards.share_states import brokers_only
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: Context
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    """Store the share state of each partition, and return one result per partition."""
    if is_empty_request(request.group_id, request.topics):
        return WriteShareGroupStateResponse()
    coordinator = broker.coordinators.share
    return submit_each(
        request.group_id,
        request.topics,
        lambda key, data: coordinator.write(key, _written(data)),
        _told,
        _response,
    )


def _written(data: PartitionData) -> ShareStateWrite:
    """Return the state of one partition as the share coordinator stores it."""
    return ShareStateWrite(
        data.state_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        batches_of(data.state_batches),
    )


def _told(partition: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition, answer.error, answer.message)


def _response(told: dict[bytes, list[PartitionResult]]) -> WriteShareGroupStateResponse:
    """Return the response with the results by topic id."""
    return WriteShareGroupStateResponse(
        [WriteStateResult(topic_id, results) for topic_id, results in told.items()]
    )


# -- rights

guard = brokers_only(WriteShareGroupStateResponse, WriteStateResult, PartitionResult)
