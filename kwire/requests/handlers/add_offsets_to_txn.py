"""AddOffsetsToTxn (key 25): v0-4.

Behaviour
- Adds the group's partition of `__consumer_offsets` to the producer's transaction, so that it can
  commit offsets of the group.  The group need not exist, any id is valid.
- The errors are those of AddPartitionsToTxn.
- If the metadata image of a cluster member does not have `__consumer_offsets`, the member lets the
  controller create it.  If its image still does not have it then, it answers
  COORDINATOR_LOAD_IN_PROGRESS, and clients retry.

Version notes: a fenced producer gets INVALID_PRODUCER_EPOCH before v2; flexible from v3.
Producers of transaction version 2 do not send it: TxnOffsetCommit adds the partition (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.coordinators.runtime.promise import Promise, answered, then
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.route import Right, Route
from kwire.txn.api_versions import client_transaction_version, error_for_version

ROUTE = Route(
    ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the group's partition of `__consumer_offsets` to the producer's transaction.

    If the topic does not exist yet, the response waits until the controller has created it.
    """
    if broker.coordinators.groups.partition_for(request.group_id) < 0:
        return _create_and_add(broker, request, context.api_version)
    added = _add(broker, request, context.api_version)
    return then(added, lambda error: _response(error, context.api_version))


async def _create_and_add(
    broker: Broker, request: AddOffsetsToTxnRequest, version: int
) -> AddOffsetsToTxnResponse:
    """Create `__consumer_offsets`, then add the group's partition to the transaction.

    Returns COORDINATOR_LOAD_IN_PROGRESS if this broker's image does not have the topic even then;
    the client retries.
    """
    await broker.coordinators.import_for(GROUP_METADATA_TOPIC)
    await create_internal_topic(broker.membership, GROUP_METADATA_TOPIC)
    if broker.coordinators.groups.partition_for(request.group_id) < 0:
        return _response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    return _response(await answered(_add(broker, request, version)), version)


def _add(
    broker: Broker, request: AddOffsetsToTxnRequest, version: int
) -> ErrorCode | Promise[ErrorCode]:
    """Ask the transaction coordinator to add the group's partition; return its error code."""
    partition = broker.coordinators.groups.partition_for(request.group_id)
    return broker.coordinators.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {GROUP_METADATA_TOPIC: frozenset({partition})},
        client_transaction_version(ApiKey.ADD_OFFSETS_TO_TXN, version),
    )


def _response(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    """Return the response; old versions have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    return AddOffsetsToTxnResponse(
        error_code=error_for_version(ApiKey.ADD_OFFSETS_TO_TXN, version, error)
    )


# -- rights


def guard(access: Access, request: AddOffsetsToTxnRequest, proceed: Proceed) -> Response:
    """Require WRITE on the transactional id and READ on the group."""
    if not access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return proceed(request)
