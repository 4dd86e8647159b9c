"""InitProducerId with a transactional id: decides its producer id and epoch (KIP-98, KIP-360).

A producer that starts gets the next epoch, which fences earlier producers with the transactional
id.  If a transaction is open, it is aborted first: the producer gets CONCURRENT_TRANSACTIONS and
retries.  A producer that recovers from an error sends its producer id and epoch; it is fenced if
another producer has taken over since.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.txn.limits import TransactionLimits
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.transaction import (
    EPOCH_BUMP,
    LAST_EPOCH_OF_CLIENTS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARED,
    Transaction,
    new_transaction,
)

NO_ID_IN_STOCK = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""Apache Kafka's error while it waits for a block of producer ids: clients retry."""


class ProducerInitialization(NamedTuple):
    """An InitProducerId request with a transactional id."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def expected_epoch(self) -> int | None:
        return None if self.producer_id == NO_PRODUCER_ID else self.producer_epoch

    def invalid(self, limits: TransactionLimits) -> ErrorCode:
        """Return the error of a request that is invalid in every state, else NONE."""
        if (self.producer_id == NO_PRODUCER_ID) != (self.producer_epoch == NO_PRODUCER_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if not self.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < self.timeout_ms <= limits.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE


def decide(
    current: Transaction | None,
    request: ProducerInitialization,
    producer_ids: ProducerIds,
    now_ms: int,
) -> Transaction | ErrorCode:
    """Return the transaction that follows InitProducerId, or the error.

    An ongoing transaction is first aborted: the result is then its state PrepareAbort.
    """
    if current is None:
        producer_id = producer_ids.take()
        if producer_id is None:
            return NO_ID_IN_STOCK
        return new_transaction(producer_id, request.timeout_ms, now_ms)
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _is_valid_producer(current, request):
        return ErrorCode.PRODUCER_FENCED
    if current.state is ONGOING:
        return fence(current, producer_ids, now_ms)
    return _initialize(current, request, producer_ids, now_ms)


def fence(ongoing: Transaction, producer_ids: ProducerIds, now_ms: int) -> Transaction | ErrorCode:
    """Return the ongoing transaction, prepared to abort with a bumped epoch, or the error.

    Its producer has the old epoch, so its later requests are refused (it is fenced).
    """
    next_producer_id: int | None = NO_PRODUCER_ID
    if ongoing.is_epoch_exhausted:
        next_producer_id = producer_ids.take()
    if next_producer_id is None:
        return NO_ID_IN_STOCK
    return ongoing.prepared(False, EPOCH_BUMP, next_producer_id, now_ms)


def _is_valid_producer(current: Transaction, request: ProducerInitialization) -> bool:
    """Return whether the request's producer id is the current one, or the previous one whose epochs
    are used up."""
    return request.producer_id in (NO_PRODUCER_ID, current.producer_id) or (
        request.producer_id == current.previous_producer_id
        and request.producer_epoch >= LAST_EPOCH_OF_CLIENTS
    )


def _initialize(
    current: Transaction, request: ProducerInitialization, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    """Return the transaction with a bumped epoch, or the error.

    The epoch that a client expects must be the current one; with the previous epoch the request is
    a repeated one (KIP-360). When the epochs are used up, the producer gets a new id.
    """
    expected, timeout_ms = request.expected_epoch, request.timeout_ms
    if expected not in (None, current.producer_epoch):
        if expected == current.last_producer_epoch:
            return current.initialized_again(timeout_ms, now_ms)
        return ErrorCode.PRODUCER_FENCED
    if not current.is_epoch_exhausted:
        return current.initialized(timeout_ms, expected, now_ms)
    producer_id = producer_ids.take()
    if producer_id is None:
        return NO_ID_IN_STOCK
    return current.rotated(producer_id, timeout_ms, expected, now_ms)
