"""DeleteShareGroupState (key 86): v0.

Behaviour
- Sent by a group coordinator when a share group no longer reads partitions.  Deletes the state of
  these partitions, with its epochs.  A partition without state is no error.
- Each partition has its own error: UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS.
- Without a group, or with a topic without partitions, it does nothing and the response is empty.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share_partitions.state_requests import is_empty_request, submit_each
from kwire.requests.context import Context
from kwire.requests.guards.share_states import brokers_only
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, context: Context
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    """Delete the share state of each partition, and return one result per partition."""
    if is_empty_request(request.group_id, request.topics):
        return DeleteShareGroupStateResponse()
    coordinator = broker.coordinators.share
    return submit_each(
        request.group_id,
        request.topics,
        lambda key, _: coordinator.delete(key),
        _told,
        _response,
    )


def _told(partition: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition, answer.error, answer.message)


def _response(told: dict[bytes, list[PartitionResult]]) -> DeleteShareGroupStateResponse:
    """Return the response with the results by topic id."""
    return DeleteShareGroupStateResponse(
        [DeleteStateResult(topic_id, results) for topic_id, results in told.items()]
    )


# -- rights

guard = brokers_only(DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)
