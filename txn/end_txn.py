"""EndTxn: what a transaction's end comes to, by its state and by who asks.

Before transaction version 2 (EndTxn below v5) a producer keeps its epoch, so that an end that is
asked for again looks like the first time.  Since version 2 (KIP-890) each end bumps the epoch:
whoever asks with the epoch before asks again and is told the same, and one that was given the new
epoch but has nothing to commit may still abort, for it cannot know whether anything was added.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.txn.init_producer_id import NO_ID_IN_STOCK
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH_BUMP,
    LAST_EPOCH_OF_CLIENTS,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARED,
    Transaction,
    TransactionState,
)


class End(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_transaction_version: int


class _Way(Enum):
    PREPARE = "prepare"
    DONE = "it was done before"
    INVALID = "invalid"


_COMMIT, _ABORT = True, False
_AGAIN, _FIRST = True, False

_WAYS: dict[tuple[TransactionState, bool], _Way] = {
    (ONGOING, _COMMIT): _Way.PREPARE,
    (ONGOING, _ABORT): _Way.PREPARE,
    (EMPTY, _COMMIT): _Way.INVALID,
    (EMPTY, _ABORT): _Way.INVALID,
    (COMPLETE_COMMIT, _COMMIT): _Way.DONE,
    (COMPLETE_COMMIT, _ABORT): _Way.INVALID,
    (COMPLETE_ABORT, _COMMIT): _Way.INVALID,
    (COMPLETE_ABORT, _ABORT): _Way.DONE,
}
"""Without epoch bumps, by state and result."""

_WAYS_WITH_BUMP: dict[tuple[TransactionState, bool, bool], _Way] = {
    (ONGOING, _COMMIT, _FIRST): _Way.PREPARE,
    (ONGOING, _ABORT, _FIRST): _Way.PREPARE,
    (EMPTY, _COMMIT, _FIRST): _Way.INVALID,
    (EMPTY, _ABORT, _FIRST): _Way.PREPARE,
    (COMPLETE_COMMIT, _COMMIT, _FIRST): _Way.INVALID,
    (COMPLETE_COMMIT, _COMMIT, _AGAIN): _Way.DONE,
    (COMPLETE_COMMIT, _ABORT, _FIRST): _Way.PREPARE,
    (COMPLETE_COMMIT, _ABORT, _AGAIN): _Way.INVALID,
    (COMPLETE_ABORT, _COMMIT, _FIRST): _Way.INVALID,
    (COMPLETE_ABORT, _COMMIT, _AGAIN): _Way.INVALID,
    (COMPLETE_ABORT, _ABORT, _FIRST): _Way.PREPARE,
    (COMPLETE_ABORT, _ABORT, _AGAIN): _Way.DONE,
}
"""With epoch bumps, by state, result, and whether it is asked for again."""


def decide(
    current: Transaction | None, request: End, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    """The transaction prepared; NONE if it was ended so before; else what is wrong."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.client_transaction_version >= EPOCH_BUMP:
        way = _way_with_bump(current, request)
    else:
        way = _way(current, request)
    if isinstance(way, ErrorCode):
        return way
    if way is _Way.DONE:
        return ErrorCode.NONE
    if way is _Way.INVALID:
        return ErrorCode.INVALID_TXN_STATE
    return _prepare(current, request, producer_ids, now_ms)


def _way(current: Transaction, request: End) -> _Way | ErrorCode:
    if request.producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != current.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _WAYS[current.state, request.commit]


def _way_with_bump(current: Transaction, request: End) -> _Way | ErrorCode:
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    epoch = request.producer_epoch
    after_rotation = (
        request.producer_id == current.previous_producer_id
        and epoch == LAST_EPOCH_OF_CLIENTS
        and current.producer_epoch == 0
    )
    again = after_rotation or epoch + 1 == current.producer_epoch
    if request.producer_id != current.producer_id and not after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch != current.producer_epoch and not again:
        return ErrorCode.PRODUCER_FENCED
    # Nothing has been ended in a state without _AGAIN: the epoch before it was another producer's.
    return _WAYS_WITH_BUMP.get((current.state, request.commit, again), ErrorCode.PRODUCER_FENCED)


def _prepare(
    current: Transaction, request: End, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    version = request.client_transaction_version
    next_producer_id: int | None = NO_PRODUCER_ID
    if version >= EPOCH_BUMP and current.is_epoch_exhausted:
        next_producer_id = producer_ids.take()
    if next_producer_id is None:
        return NO_ID_IN_STOCK
    return current.prepared(request.commit, version, next_producer_id, now_ms)
