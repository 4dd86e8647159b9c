"""ReadShareGroupStateSummary (key 87): v0-1.

Behaviour
- Sent by a group coordinator to learn the start offsets of a share group.  It fences no leader, and
  the leader epoch in the request has no effect.
- A partition without share state has the start offset -1.
- Each partition has its own error: UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS.
- Without a group, or with a topic without partitions, the response is empty.

Version notes: the number of completed deliveries after the start offset from v1 (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share_partitions.state_requests import is_empty_request, submit_each
from kwire.requests.context import Context
from kwire.requests.guards.share_states import brokers_only
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    0,
    1,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
)


def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: Context
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    """Return the start offset and epochs of each partition's share state, or its error."""
    if is_empty_request(request.group_id, request.topics):
        return ReadShareGroupStateSummaryResponse()
    coordinator = broker.coordinators.share
    return submit_each(
        request.group_id,
        request.topics,
        lambda key, _: coordinator.summary(key),
        _told,
        _response,
    )


def _told(partition: int, answer: ShareStateAnswer) -> PartitionResult:
    """Return the result of one partition: its start offset and epochs, or an error."""
    state = answer.state
    if state is None:
        return PartitionResult(partition, answer.error, answer.message)
    return PartitionResult(
        partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _response(told: dict[bytes, list[PartitionResult]]) -> ReadShareGroupStateSummaryResponse:
    """Return the response with the results by topic id."""
    return ReadShareGroupStateSummaryResponse(
        [ReadStateSummaryResult(topic_id, results) for topic_id, results in told.items()]
    )


# -- rights

guard = brokers_only(
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    PartitionResult,
)
