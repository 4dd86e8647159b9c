"""InitProducerId with a transactional id: who its producer is from now on (KIP-98, KIP-360).

A producer that starts is given the next epoch, which fences all that had the id before.  If it
left a transaction open, that is aborted first, and the producer is told CONCURRENT_TRANSACTIONS
and comes again.  A producer that goes on after an error names the id and epoch it had, and is
fenced itself if another has taken over since.
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
    born,
)

NO_ID_IN_STOCK = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""What Apache Kafka says while it waits for a block of producer ids: clients come again."""


class Initialization(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def expected_epoch(self) -> int | None:
        return None if self.producer_id == NO_PRODUCER_ID else self.producer_epoch

    def invalid(self, limits: TransactionLimits) -> ErrorCode:
        """What is wrong with the request whatever the id's state."""
        if (self.producer_id == NO_PRODUCER_ID) != (self.producer_epoch == NO_PRODUCER_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if not self.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < self.timeout_ms <= limits.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE


def decide(
    current: Transaction | None, request: Initialization, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    """The next step: initialized, or, of one that is ongoing, fenced.  Else what is wrong."""
    if current is None:
        producer_id = producer_ids.take()
        if producer_id is None:
            return NO_ID_IN_STOCK
        return born(producer_id, request.timeout_ms, now_ms)
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _is_valid_producer(current, request):
        return ErrorCode.PRODUCER_FENCED
    if current.state is ONGOING:
        return fence(current, producer_ids, now_ms)
    return _initialize(current, request, producer_ids, now_ms)


def fence(ongoing: Transaction, producer_ids: ProducerIds, now_ms: int) -> Transaction | ErrorCode:
    """Abort a transaction in an epoch that its producer does not have."""
    next_producer_id: int | None = NO_PRODUCER_ID
    if ongoing.is_epoch_exhausted:
        next_producer_id = producer_ids.take()
    if next_producer_id is None:
        return NO_ID_IN_STOCK
    return ongoing.prepared(False, EPOCH_BUMP, next_producer_id, now_ms)


def _is_valid_producer(current: Transaction, request: Initialization) -> bool:
    """Whether the id named is this producer's, or was before its epochs were used up."""
    return request.producer_id in (NO_PRODUCER_ID, current.producer_id) or (
        request.producer_id == current.previous_producer_id
        and request.producer_epoch >= LAST_EPOCH_OF_CLIENTS
    )


def _initialize(
    current: Transaction, request: Initialization, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
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
