"""AlterPartitionReassignments (key 45): v0-1.

Behaviour
- Gives partitions other replicas, or ends what is under way, without waiting until they are in
  sync: ListPartitionReassignments tells.  kwire.cluster.controller.reassignment has the rules.
- Any other broker than the controller says NOT_CONTROLLER, for all of it.
- The timeout is not looked at: what can be decided is decided before the answer.

Version notes: flexible from v0; v1 can ask that the number of replicas stays (KIP-860).
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kwire.requests.context import Context

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    try:
        reply: AlterPartitionReassignmentsResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.alter_reassignments(request),
            log,
            "partitions are not reassigned",
        )
    except Refusal as refusal:
        return AlterPartitionReassignmentsResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    return reply
