"""AlterPartition (key 56): v2-3.

Behaviour
- The leader of a partition proposes a new ISR to the controller (KIP-497);
  kwire.cluster.controller.isr says what it refuses.
- A broker that is not the controller answers NOT_CONTROLLER, and the leader looks for the
  controller.
- A broker outside a cluster closes the connection, as for an API key that does not exist.

Version notes: topics by id from v2, the first version served; v3 has the epochs of the brokers.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.ALTER_PARTITION,
    2,
    3,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


async def handle(
    broker: Broker, request: AlterPartitionRequest, context: Context
) -> AlterPartitionResponse:
    """Let the controller decide about the ISRs that a leader proposes; return its response.

    Raises CloseConnection outside a cluster.
    """
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    try:
        reply: AlterPartitionResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.alter_partition(request),
            log,
            f"Cannot apply the ISR that broker {request.broker_id} proposes",
        )
    except Refusal as refusal:
        return AlterPartitionResponse(error_code=refusal.error)
    return reply
