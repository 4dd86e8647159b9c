"""ReadShareGroupState (key 84): v0.

Behaviour
- Sent by the leader of partitions before it delivers their records to a share group.  The response
  has the start offset and the state of the records after it.  From then on the share coordinator
  fences leaders of earlier epochs.
- Each partition has its own error: FENCED_LEADER_EPOCH for an earlier leader, INVALID_REQUEST for a
  partition without share state, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS.
- Without a group, or with a topic without partitions, it does nothing and the response is empty.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share_partitions.state_requests import is_empty_request, submit_each
from kwire.requests.context import Context
from kwire.requests.guards.share_states import brokers_only
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.READ_SHARE_GROUP_STATE, 0, 0, Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: ReadShareGroupStateRequest, context: Context
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    """Return the share state of each partition, or its error."""
    if is_empty_request(request.group_id, request.topics):
        return ReadShareGroupStateResponse()
    coordinator = broker.coordinators.share
    return submit_each(
        request.group_id,
        request.topics,
        lambda key, each: coordinator.read(key, each.leader_epoch),
        _told,
        _response,
    )


def _told(partition: int, answer: ShareStateAnswer) -> PartitionResult:
    """Return the result of one partition: its start offset and its records' state, or an error."""
    state = answer.state
    if state is None:
        return PartitionResult(partition, answer.error, answer.message)
    batches = [
        StateBatch(batch.first, batch.last, batch.state, batch.delivery_count)
        for batch in state.batches
    ]
    return PartitionResult(
        partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=batches,
    )


def _response(told: dict[bytes, list[PartitionResult]]) -> ReadShareGroupStateResponse:
    """Return the response with the results by topic id."""
    return ReadShareGroupStateResponse(
        [ReadStateResult(topic_id, results) for topic_id, results in told.items()]
    )


# -- rights

guard = brokers_only(ReadShareGroupStateResponse, ReadStateResult, PartitionResult)
