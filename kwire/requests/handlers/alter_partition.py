"""AlterPartition (key 56): v2-3.

Behaviour
- The leader of a partition tells the controller who is in sync (KIP-497);
  kwire.cluster.controller.isr has what is refused.
- Any other broker than the controller says NOT_CONTROLLER, and the leader looks for the right one.
- A broker alone does not serve it: the connection is closed, as for a key that does not exist.

Version notes: topics go by their ids from v2, the first here; v3 has the epochs of the brokers.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.requests.context import Context
from kwire.requests.routes import not_served

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: AlterPartitionRequest, context: Context
) -> AlterPartitionResponse:
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    try:
        reply: AlterPartitionResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.alter_partition(request),
            log,
            f"what broker {request.broker_id} says of who is in sync is not kept",
        )
    except Refusal as refusal:
        return AlterPartitionResponse(error_code=refusal.error)
    return reply
