"""AlterPartitionReassignments (key 45): v0-1.

Behaviour
- Begins to move partitions to other replicas, or cancels such a move.  The response does not wait
  until the replicas are in sync; ListPartitionReassignments shows the progress.
  kwire.cluster.controller.reassignment has the rules.
- A broker that is not the controller answers NOT_CONTROLLER for the whole request.
- The timeout has no effect: the decision is made before the response.

Version notes: flexible from v0; v1 can require that the number of replicas stays (KIP-860).
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Request
from kwire.requests.route import Right, Route

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    0,
    1,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    by_controller=True,
)


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Let the controller begin or cancel reassignments; return its response."""
    try:
        reply: AlterPartitionReassignmentsResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.alter_reassignments(request),
            log,
            "Cannot reassign partitions",
        )
    except Refusal as refusal:
        return AlterPartitionReassignmentsResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    return reply


# -- rights


def refuse(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> AlterPartitionReassignmentsResponse:
    """Return the response with `error` for the request and for each of its partitions."""
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(partition.partition_index, error, message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
