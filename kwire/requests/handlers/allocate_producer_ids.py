"""AllocateProducerIds (key 67): v0.

Behaviour
- Gives the sending broker a block of a thousand producer ids that no other broker gets (KIP-730).
- BROKER_ID_NOT_REGISTERED if the sender is not registered, STALE_BROKER_EPOCH if it has registered
  again since, NOT_CONTROLLER if this broker is not the controller.
- A broker outside a cluster closes the connection, as for an API key that does not exist.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.requests.routes import not_served
from kwire.txn.producer_ids import BLOCK_SIZE

log = logging.getLogger("kwire.controller")

ROUTE = Route(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    0,
    0,
    Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    in_cluster_only=True,
)


async def handle(
    broker: Broker, request: AllocateProducerIdsRequest, context: Context
) -> AllocateProducerIdsResponse:
    """Ask the controller to check the sending broker, then give it a block of producer ids.

    Raises CloseConnection outside a cluster.
    """
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    failure = f"Cannot give producer ids to broker {request.broker_id}"
    try:
        error: ErrorCode = await ask_for_client(
            broker.membership,
            lambda controller: controller.may_allocate_producer_ids(request),
            log,
            failure,
        )
        if error:
            return AllocateProducerIdsResponse(error_code=error)
        ids = await broker.node.store.allocate_producer_ids(BLOCK_SIZE)
    except Refusal as refusal:
        return AllocateProducerIdsResponse(error_code=refusal.error)
    except StoreError as problem:
        log.error("%s: %s", failure, problem)
        return AllocateProducerIdsResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return AllocateProducerIdsResponse(producer_id_start=ids.start, producer_id_len=len(ids))
