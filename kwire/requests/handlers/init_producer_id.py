"""InitProducerId (key 22): v0-5.

Behaviour
- An idempotent producer (without a transactional id) gets a new producer id with epoch 0.  The id
  and epoch in its request are ignored, but one without the other gives INVALID_REQUEST (KIP-360).
- An empty transactional id gives INVALID_REQUEST.
- A transactional producer gets the next epoch of its producer id.  Only the coordinator, which
  leads the transactional id's partition of `__transaction_state`, answers so; others answer
  NOT_COORDINATOR.  If the producer has left a transaction open, the coordinator aborts it and
  answers CONCURRENT_TRANSACTIONS, and the client retries.
- A transaction timeout must be above 0 and at most `transaction.max.timeout.ms`:
  INVALID_TRANSACTION_TIMEOUT.
- If the store cannot give a block of ids: COORDINATOR_LOAD_IN_PROGRESS, which clients retry.

Version notes: flexible from v2; the producer's last id and epoch from v3 (KIP-360); a fenced
producer gets PRODUCER_FENCED from v4, INVALID_PRODUCER_EPOCH before; v5 allows more error codes.
v6 (two-phase commit, KIP-939) is not served; Apache Kafka serves it only if a setting says so.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.route import Right, Route
from kwire.txn.api_versions import error_for_version
from kwire.txn.effects import ProducerAnswer
from kwire.txn.init_producer_id import ProducerInitialization

log = logging.getLogger("kwire.producer_ids")

NONE = -1

ROUTE = Route(
    ApiKey.INIT_PRODUCER_ID, 0, 5, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return a new producer id, or the next epoch of a transactional producer.

    The response waits if this broker has no producer id left, or for the coordinator.
    """
    if request.transactional_id is not None:
        return _initialize(broker, request.transactional_id, request, context.api_version)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _failure(ErrorCode.INVALID_REQUEST)
    producer_id = broker.node.producer_ids.ids.take()
    if producer_id is None:
        return _with_new_block(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _with_new_block(broker: Broker) -> InitProducerIdResponse:
    """The response with an id of a new block.

    Other requests may take all ids of a block while this one waits for it, so it may need several.
    """
    while (producer_id := broker.node.producer_ids.ids.take()) is None:
        try:
            await broker.node.producer_ids.restock()
        except StoreError as problem:
            log.error("Cannot get a block of producer ids: %s. The client will retry.", problem)
            return _failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _initialize(
    broker: Broker, transactional_id: str, request: InitProducerIdRequest, version: int
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Let the transaction coordinator initialize the transactional producer; return its answer."""
    initialization = ProducerInitialization(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    answer = broker.coordinators.transactions.init_producer_id(initialization)
    if isinstance(answer, ProducerAnswer):
        return _response(answer, version)
    return _wait(answer, version)


async def _wait(answer: Awaitable[ProducerAnswer], version: int) -> InitProducerIdResponse:
    return _response(await answer, version)


def _response(answer: ProducerAnswer, version: int) -> InitProducerIdResponse:
    """Return the response; old versions have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    return InitProducerIdResponse(
        error_code=error_for_version(ApiKey.INIT_PRODUCER_ID, version, answer.error),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


def _failure(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)


# -- rights


def guard(access: Access, request: InitProducerIdRequest, proceed: Proceed) -> Response:
    """Require WRITE on the transactional id, if the request has one.

    If not, require IDEMPOTENT_WRITE on the cluster or WRITE on any topic (KIP-679).
    """
    if request.transactional_id is not None:
        if access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return proceed(request)
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if access.on_cluster(AclOperation.IDEMPOTENT_WRITE, quiet=True) or access.authority.allows_any(
        access.context, AclOperation.WRITE, ResourceType.TOPIC
    ):
        return proceed(request)
    return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=0)
