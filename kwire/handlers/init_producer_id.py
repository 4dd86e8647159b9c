"""InitProducerId (key 22): v0-5.

Behaviour
- An idempotent producer (no transactional id) gets a producer id that nobody had before, with
  epoch 0, whatever id and epoch it may have had: naming one of the two without the other is an
  INVALID_REQUEST, and otherwise they are not looked at (KIP-360).
- An empty transactional id is INVALID_REQUEST.
- A transactional producer needs a transaction coordinator, and this broker has none.  It is told
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of all codes it is the one that the clients know for sure
  is final here, so that `init_transactions` fails at once; most others they retry until a timeout
  of a minute or more.  A transaction timeout that is not above 0 and up to
  `transaction.max.timeout.ms` is INVALID_TRANSACTION_TIMEOUT first, as with Apache Kafka.
- Where the store cannot give a block of ids: COORDINATOR_LOAD_IN_PROGRESS, which clients retry.

Version notes: flexible from v2; the producer's last id and epoch from v3; v4-5 allow more error
codes.  v6 (two-phase commit, KIP-939) is not served, as by Apache Kafka unless told to.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kwire.broker import Broker
from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.context import Context
from kwire.txn.producer_ids import BLOCK_SIZE

log = logging.getLogger("kwire.producer_ids")

NONE = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    if transactional_id == "":
        return _failure(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _failure(ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        timeout_ms_max: int = broker.config.transaction_max_timeout_ms
        if not 0 < request.transaction_timeout_ms <= timeout_ms_max:
            return _failure(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return _failure(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    producer_id = broker.producer_ids.take()
    if producer_id is None:
        return _with_new_block(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _with_new_block(broker: Broker) -> InitProducerIdResponse:
    """Get ids first.  Others may take them while this waits, so once may not be enough."""
    ids = broker.producer_ids
    while (producer_id := ids.take()) is None:
        try:
            ids.add(await broker.store.allocate_producer_ids(BLOCK_SIZE))
        except StoreError as problem:
            log.error("no producer ids: %s", problem)
            return _failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failure(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)
