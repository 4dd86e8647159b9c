"""UnregisterBroker (key 64): v0.

Behaviour
- Removes a broker that is gone for good from the metadata: DescribeCluster no longer lists it as
  fenced.  BROKER_ID_NOT_REGISTERED if it is not registered.
- The partitions of a live broker get other leaders; a broker that is the only one leads nothing
  until it restarts.  Of several brokers on one machine, one that is unregistered stops.
- A broker that is not the controller passes the request on.
- A broker on ZooKeeper closes the connection, as for an API key that does not exist.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import NOT_THE_CONTROLLER
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import Fenced, NotController, StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.requests.routes import require_quorum

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.UNREGISTER_BROKER,
    0,
    0,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    about_quorum=True,
    by_controller=True,
)


async def handle(
    broker: Broker, request: UnregisterBrokerRequest, context: Context
) -> UnregisterBrokerResponse:
    """Remove the registration of a broker.  Raises CloseConnection on a broker with ZooKeeper."""
    require_quorum(broker, context)
    try:
        await broker.membership.unregister_broker(request.broker_id)
    except Refusal as refusal:
        return UnregisterBrokerResponse(error_code=refusal.error, error_message=refusal.message)
    except (Fenced, NotController):
        return UnregisterBrokerResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message=NOT_THE_CONTROLLER
        )
    except StoreError as error:
        log.error("Cannot unregister broker %d: %s", request.broker_id, error)
        return UnregisterBrokerResponse(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error)
        )
    return UnregisterBrokerResponse(error_message="")


# -- rights


def refuse(
    request: UnregisterBrokerRequest, error: ErrorCode, version: int, message: str
) -> UnregisterBrokerResponse:
    """Return the response that refuses the request with `error`."""
    return UnregisterBrokerResponse(error_code=error, error_message=message)
