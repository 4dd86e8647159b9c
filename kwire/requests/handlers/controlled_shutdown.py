"""ControlledShutdown (key 7): v1-3.

Behaviour
- The controller elects other leaders for the partitions that the sending broker leads.  The
  response has the partitions that the sender still leads; kwire.cluster.controller.shutdown has the
  rules.
- A broker that is not the controller answers STALE_CONTROLLER_EPOCH, as Apache Kafka does.
- A broker outside a cluster closes the connection, as for an API key that does not exist.

Version notes: v0, of Kafka 0.8, has a request header of its own and is not served; the broker epoch
from v2; flexible from v3.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.CONTROLLED_SHUTDOWN,
    1,
    3,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


async def handle(
    broker: Broker, request: ControlledShutdownRequest, context: Context
) -> ControlledShutdownResponse:
    """Let the controller elect other leaders for the sending broker; return its response.

    Raises CloseConnection outside a cluster.
    """
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    try:
        reply: ControlledShutdownResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.controlled_shutdown(request),
            log,
            f"Cannot elect other leaders for broker {request.broker_id}, which shuts down",
        )
    except Refusal as refusal:
        is_elsewhere = refusal.error == ErrorCode.NOT_CONTROLLER
        return ControlledShutdownResponse(
            ErrorCode.STALE_CONTROLLER_EPOCH if is_elsewhere else refusal.error
        )
    return reply
