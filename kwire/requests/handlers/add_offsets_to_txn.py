"""AddOffsetsToTxn (key 25): v0-4.

Behaviour
- Offsets of a group will be committed in the producer's transaction: the partition of
  `__consumer_offsets` that the group lives in becomes part of it.  The group itself is not looked
  at, any id is good.
- The errors are those of AddPartitionsToTxn.
- A member of a cluster that was not told of `__consumer_offsets` has it made if need be, and
  answers COORDINATOR_LOAD_IN_PROGRESS, upon which clients try again, if it still is not told.

Version notes: a fenced producer is told INVALID_PRODUCER_EPOCH before v2; flexible from v3.
Producers of transaction version 2 do not send it: TxnOffsetCommit adds the partition (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.coordinators.runtime.promise import Promise, answered, then
from kwire.requests.context import Context
from kwire.txn.api_versions import client_transaction_version, told_error


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    if broker.coordinators.groups.partition_for(request.group_id) < 0:
        return _create_and_add(broker, request, context.api_version)
    added = _add(broker, request, context.api_version)
    return then(added, lambda error: _told(error, context.api_version))


async def _create_and_add(
    broker: Broker, request: AddOffsetsToTxnRequest, version: int
) -> AddOffsetsToTxnResponse:
    await create_internal_topic(broker.membership, GROUP_METADATA_TOPIC)
    if broker.coordinators.groups.partition_for(request.group_id) < 0:
        return _told(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    return _told(await answered(_add(broker, request, version)), version)


def _add(
    broker: Broker, request: AddOffsetsToTxnRequest, version: int
) -> ErrorCode | Promise[ErrorCode]:
    partition = broker.coordinators.groups.partition_for(request.group_id)
    return broker.coordinators.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {GROUP_METADATA_TOPIC: frozenset({partition})},
        client_transaction_version(ApiKey.ADD_OFFSETS_TO_TXN, version),
    )


def _told(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=told_error(ApiKey.ADD_OFFSETS_TO_TXN, version, error))
