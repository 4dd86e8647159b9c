"""AllocateProducerIds (key 67): v0.

Behaviour
- A broker takes a block of a thousand producer ids that nobody else will be given (KIP-730).
- One that is not registered: BROKER_ID_NOT_REGISTERED; an earlier registration of it:
  STALE_BROKER_EPOCH; any other broker than the controller: NOT_CONTROLLER.
- A broker alone does not serve it: the connection is closed, as for a key that does not exist.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kwire.requests.context import Context
from kwire.requests.routes import not_served
from kwire.txn.producer_ids import BLOCK_SIZE

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: AllocateProducerIdsRequest, context: Context
) -> AllocateProducerIdsResponse:
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    otherwise = f"broker {request.broker_id} gets no producer ids"
    try:
        error: ErrorCode = await ask_for_client(
            broker.membership,
            lambda controller: controller.may_allocate_producer_ids(request),
            log,
            otherwise,
        )
        if error:
            return AllocateProducerIdsResponse(error_code=error)
        ids = await broker.node.store.allocate_producer_ids(BLOCK_SIZE)
    except Refusal as refusal:
        return AllocateProducerIdsResponse(error_code=refusal.error)
    except StoreError as problem:
        log.error("%s: %s", otherwise, problem)
        return AllocateProducerIdsResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return AllocateProducerIdsResponse(producer_id_start=ids.start, producer_id_len=len(ids))
