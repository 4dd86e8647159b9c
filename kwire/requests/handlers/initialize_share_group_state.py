"""InitializeShareGroupState (key 83): v0.

Behaviour
- Sent by a group coordinator when a share group starts to read partitions, or starts again.  The
  start offset is given, or is -1: then the group's settings decide at the first read.
- Each partition has its own error from the share coordinator (`kwire.coordinators.share.machine`):
  FENCED_STATE_EPOCH for an earlier epoch of the group, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS.
- Without a group the response is empty; it leaves out a topic without partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share_partitions.state_requests import submit_each
from kwire.requests.context import Context
from kwire.requests.guards.share_states import brokers_only
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    0,
    0,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
)


def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, context: Context
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    """Initialize the share state of each partition, and return one result per partition."""
    if not request.group_id:
        return InitializeShareGroupStateResponse()
    coordinator = broker.coordinators.share
    return submit_each(
        request.group_id,
        request.topics,
        lambda key, each: coordinator.initialize(key, each.state_epoch, each.start_offset),
        _told,
        _response,
    )


def _told(partition: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition, answer.error, answer.message)


def _response(told: dict[bytes, list[PartitionResult]]) -> InitializeShareGroupStateResponse:
    """Return the response with the results by topic id."""
    return InitializeShareGroupStateResponse(
        [InitializeStateResult(topic_id, results) for topic_id, results in told.items()]
    )


# -- rights

guard = brokers_only(
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
