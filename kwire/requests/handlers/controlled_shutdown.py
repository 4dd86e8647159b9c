"""ControlledShutdown (key 7): v1-3.

Behaviour
- A broker that is about to go has the controller find other leaders for what it leads, and hears
  what is left; kwire.cluster.controller.shutdown has the rules.
- Any other broker than the controller says STALE_CONTROLLER_EPOCH, as Apache Kafka does here.
- A broker alone does not serve it: the connection is closed, as for a key that does not exist.

Version notes: v0, of Kafka 0.8, has a request header of its own and is not served; before v2 a
broker does not say in which epoch it is registered; flexible from v3.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kwire.requests.context import Context
from kwire.requests.routes import not_served

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: ControlledShutdownRequest, context: Context
) -> ControlledShutdownResponse:
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    try:
        reply: ControlledShutdownResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.controlled_shutdown(request),
            log,
            f"broker {request.broker_id} cannot be relieved",
        )
    except Refusal as refusal:
        is_elsewhere = refusal.error == ErrorCode.NOT_CONTROLLER
        return ControlledShutdownResponse(
            ErrorCode.STALE_CONTROLLER_EPOCH if is_elsewhere else refusal.error
        )
    return reply
