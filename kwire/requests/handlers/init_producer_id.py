"""InitProducerId (key 22): v0-5.

Behaviour
- An idempotent producer (no transactional id) gets a producer id that nobody had before, with
  epoch 0, whatever id and epoch it may have had: naming one of the two without the other is an
  INVALID_REQUEST, and otherwise they are not looked at (KIP-360).
- An empty transactional id is INVALID_REQUEST.
- A transactional producer gets the next epoch of its id from its coordinator: the broker that
  leads the id's partition of `__transaction_state`, else NOT_COORDINATOR.  If it left a transaction
  open that is aborted first, CONCURRENT_TRANSACTIONS, and it comes again.
- A transaction timeout that is not above 0 and up to `transaction.max.timeout.ms` is
  INVALID_TRANSACTION_TIMEOUT.
- Where the store cannot give a block of ids: COORDINATOR_LOAD_IN_PROGRESS, which clients retry.

Version notes: flexible from v2; the producer's last id and epoch from v3 (KIP-360); from v4 a
fenced producer is told PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH; v5 allows more error codes.
v6 (two-phase commit, KIP-939) is not served, as by Apache Kafka unless told to.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.requests.context import Context
from kwire.txn.api_versions import told_error
from kwire.txn.effects import ProducerAnswer
from kwire.txn.init_producer_id import Initialization

log = logging.getLogger("kwire.producer_ids")

NONE = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is not None:
        return _initialize(broker, request.transactional_id, request, context.api_version)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _failure(ErrorCode.INVALID_REQUEST)
    producer_id = broker.node.producer_ids.ids.take()
    if producer_id is None:
        return _with_new_block(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _with_new_block(broker: Broker) -> InitProducerIdResponse:
    """Get ids first.  Others may take them while this waits, so once may not be enough."""
    while (producer_id := broker.node.producer_ids.ids.take()) is None:
        try:
            await broker.node.producer_ids.restock()
        except StoreError as problem:
            log.error("no producer ids: %s", problem)
            return _failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _initialize(
    broker: Broker, transactional_id: str, request: InitProducerIdRequest, version: int
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    wanted = Initialization(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    answer = broker.coordinators.transactions.init_producer_id(wanted)
    if isinstance(answer, ProducerAnswer):
        return _told(answer, version)
    return _wait(answer, version)


async def _wait(answer: Awaitable[ProducerAnswer], version: int) -> InitProducerIdResponse:
    return _told(await answer, version)


def _told(answer: ProducerAnswer, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=told_error(ApiKey.INIT_PRODUCER_ID, version, answer.error),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


def _failure(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)
