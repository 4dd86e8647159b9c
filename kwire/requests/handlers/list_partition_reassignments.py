"""ListPartitionReassignments (key 46): v0.

Behaviour
- The response has those of the requested partitions (or of all) that are being reassigned, with
  their replicas, adding replicas and removing replicas.  It leaves out all other partitions, also
  unknown ones.
- A broker that is not the controller answers NOT_CONTROLLER.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Request
from kwire.requests.route import Right, Route

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    0,
    0,
    Right(AclOperation.DESCRIBE, ResourceType.CLUSTER),
    by_controller=True,
)


async def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Let the controller list the reassignments in progress; return its response."""
    try:
        reply: ListPartitionReassignmentsResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.list_reassignments(request),
            log,
            "Cannot list reassignments",
        )
    except Refusal as refusal:
        return ListPartitionReassignmentsResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    return reply


# -- rights


def refuse(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> ListPartitionReassignmentsResponse:
    """Return the response with `error`; it has no topics."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=message)
