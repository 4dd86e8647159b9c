"""EndTxn (key 26): v0-5.

Behaviour
- Commits or aborts the producer's transaction.  The decision is final: it is in
  `__transaction_state` before the response is sent.  A transaction of few partitions also has its
  markers in them by then; those of a large one follow.
- INVALID_PRODUCER_ID_MAPPING if the transactional id has another producer or none, PRODUCER_FENCED
  for another epoch, INVALID_TXN_STATE without an open transaction, CONCURRENT_TRANSACTIONS while
  the end decided before is still being written.
- The feature level may have gone below transaction version 2 after the client learned of it.  If
  such a client sends v5, its connection is closed; the next one gives it the present level.

Version notes: a fenced producer gets INVALID_PRODUCER_EPOCH before v2; flexible from v3; from v5
(transaction version 2, KIP-890) each end gives the producer its next epoch, and a retry in the
epoch before gets the same response.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import (
    EPOCH_PER_TRANSACTION,
    TRANSACTION_VERSION,
    FinalizedFeatures,
)
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.requests.context import CloseConnection, Context
from kwire.requests.route import Right, Route
from kwire.txn.api_versions import client_transaction_version, error_for_version
from kwire.txn.effects import ProducerAnswer
from kwire.txn.end_txn import EndTransaction

EPOCH_PER_TRANSACTION_SINCE = 5

ROUTE = Route(ApiKey.END_TXN, 0, 5, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID))


def handle(
    broker: Broker, request: EndTxnRequest, context: Context
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort the producer's transaction; return the coordinator's answer."""
    version = context.api_version
    if version >= EPOCH_PER_TRANSACTION_SINCE:
        _check_features_known(broker.image.features, context)
    end = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        client_transaction_version(ApiKey.END_TXN, version),
    )
    answer = broker.coordinators.transactions.end_txn(end)
    if isinstance(answer, ProducerAnswer):
        return _response(answer, version)
    return _wait(answer, version)


def _check_features_known(features: FinalizedFeatures, context: Context) -> None:
    """Close the connection if the client believes in a transaction version that has ended.

    After a downgrade a partition leader may be a broker without transaction version 2, which does
    not know of partitions added by a write.  The client learns the level from its next connection
    and uses it from the next transaction on.
    """
    if (
        0 <= context.features_epoch < features.epoch
        and features.level(TRANSACTION_VERSION) < EPOCH_PER_TRANSACTION
    ):
        raise CloseConnection(
            f"the level of {TRANSACTION_VERSION} has changed since the client's ApiVersions request"
        )


async def _wait(answer: Awaitable[ProducerAnswer], version: int) -> EndTxnResponse:
    return _response(await answer, version)


def _response(answer: ProducerAnswer, version: int) -> EndTxnResponse:
    """Return the response; old versions have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    return EndTxnResponse(
        error_code=error_for_version(ApiKey.END_TXN, version, answer.error),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
