"""AddOffsetsToTxn (key 25): v0-4.

Behaviour
- Offsets of a group will be committed in the producer's transaction: the partition of
  `__consumer_offsets` that the group lives in becomes part of it.  The group itself is not looked
  at, any id is good.
- The errors are those of AddPartitionsToTxn.

Version notes: a fenced producer is told INVALID_PRODUCER_EPOCH before v2; flexible from v3.
Producers of transaction version 2 do not send it: TxnOffsetCommit adds the partition (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker import Broker
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.context import Context
from kwire.coordinators.promise import then
from kwire.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.txn.api_versions import client_transaction_version, told_error


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    version = context.api_version
    partition = broker.groups.partition_for(request.group_id)
    error = broker.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {GROUP_METADATA_TOPIC: frozenset({partition})},
        client_transaction_version(ApiKey.ADD_OFFSETS_TO_TXN, version),
    )
    return then(error, lambda error: _told(error, version))


def _told(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=told_error(ApiKey.ADD_OFFSETS_TO_TXN, version, error))
