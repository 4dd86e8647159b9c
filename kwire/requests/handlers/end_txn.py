"""EndTxn (key 26): v0-5.

Behaviour
- Commits or aborts the producer's transaction.  The decision is in `__transaction_state` before the
  reply, and nothing can undo it; the markers of a transaction of few partitions are in their
  partitions by then too, those of a large one follow.
- INVALID_PRODUCER_ID_MAPPING for an id that has another producer or none, PRODUCER_FENCED for
  another epoch, INVALID_TXN_STATE where there is nothing to end, CONCURRENT_TRANSACTIONS while the
  end decided before is still going on.
- A client that goes by transaction version 2 where it is in force no longer was told so before: its
  connection is closed, and by the next one it is told better.

Version notes: a fenced producer is told INVALID_PRODUCER_EPOCH before v2; flexible from v3; from v5
(transaction version 2, KIP-890) each end gives the producer its next epoch, and one that asks again
in the epoch before is told the same.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.features import (
    EPOCH_PER_TRANSACTION,
    TRANSACTION_VERSION,
    FinalizedFeatures,
)
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.requests.context import CloseConnection, Context
from kwire.txn.api_versions import client_transaction_version, told_error
from kwire.txn.effects import ProducerAnswer
from kwire.txn.end_txn import End

EPOCH_PER_TRANSACTION_SINCE = 5


def handle(
    broker: Broker, request: EndTxnRequest, context: Context
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    version = context.api_version
    if version >= EPOCH_PER_TRANSACTION_SINCE:
        _check_is_told(broker.image.features, context)
    wanted = End(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        client_transaction_version(ApiKey.END_TXN, version),
    )
    answer = broker.coordinators.transactions.end_txn(wanted)
    if isinstance(answer, ProducerAnswer):
        return _told(answer, version)
    return _wait(answer, version)


def _check_is_told(features: FinalizedFeatures, context: Context) -> None:
    """Leaders that know no transaction version 2 may have come: its partitions are unknown to them.

    A client learns of it by a new connection, and lives by it from the transaction after this one.
    """
    if (
        0 <= context.features_epoch < features.epoch
        and features.level(TRANSACTION_VERSION) < EPOCH_PER_TRANSACTION
    ):
        raise CloseConnection(f"{TRANSACTION_VERSION} is at another level than it was told")


async def _wait(answer: Awaitable[ProducerAnswer], version: int) -> EndTxnResponse:
    return _told(await answer, version)


def _told(answer: ProducerAnswer, version: int) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=told_error(ApiKey.END_TXN, version, answer.error),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )
