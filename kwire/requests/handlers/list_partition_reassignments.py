"""ListPartitionReassignments (key 46): v0.

Behaviour
- Of the partitions that are named, or of all, those that are being reassigned: all their replicas,
  which of them are to come and which are to go.  Others are left out, whether they exist or not.
- Any other broker than the controller says NOT_CONTROLLER.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.requests.context import Context

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    try:
        reply: ListPartitionReassignmentsResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.list_reassignments(request),
            log,
            "reassignments are not listed",
        )
    except Refusal as refusal:
        return ListPartitionReassignmentsResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    return reply
