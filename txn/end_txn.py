"""EndTxn: decides the end of a transaction by its state and the request.

Before transaction version 2 (EndTxn below v5) a producer keeps its epoch, so a retry looks like a
first request.  Since version 2 (KIP-890) each end bumps the epoch.  A request with the previous
epoch is therefore a retry, and gets the same response.  A producer with the new epoch may abort
without a transaction, because it cannot know whether a partition was added.
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


class EndTransaction(NamedTuple):
    """An EndTxn request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_transaction_version: int


class _Action(Enum):
    PREPARE = "prepare the end"
    DONE = "the request was carried out before"
    INVALID = "invalid"


_COMMIT, _ABORT = True, False
_RETRY, _FIRST = True, False

_ACTIONS: dict[tuple[TransactionState, bool], _Action] = {
    (ONGOING, _COMMIT): _Action.PREPARE,
    (ONGOING, _ABORT): _Action.PREPARE,
    (EMPTY, _COMMIT): _Action.INVALID,
    (EMPTY, _ABORT): _Action.INVALID,
    (COMPLETE_COMMIT, _COMMIT): _Action.DONE,
    (COMPLETE_COMMIT, _ABORT): _Action.INVALID,
    (COMPLETE_ABORT, _COMMIT): _Action.INVALID,
    (COMPLETE_ABORT, _ABORT): _Action.DONE,
}
"""(state, commit) -> action, without epoch bumps."""

_ACTIONS_WITH_BUMP: dict[tuple[TransactionState, bool, bool], _Action] = {
    (ONGOING, _COMMIT, _FIRST): _Action.PREPARE,
    (ONGOING, _ABORT, _FIRST): _Action.PREPARE,
    (EMPTY, _COMMIT, _FIRST): _Action.INVALID,
    (EMPTY, _ABORT, _FIRST): _Action.PREPARE,
    (COMPLETE_COMMIT, _COMMIT, _FIRST): _Action.INVALID,
    (COMPLETE_COMMIT, _COMMIT, _RETRY): _Action.DONE,
    (COMPLETE_COMMIT, _ABORT, _FIRST): _Action.PREPARE,
    (COMPLETE_COMMIT, _ABORT, _RETRY): _Action.INVALID,
    (COMPLETE_ABORT, _COMMIT, _FIRST): _Action.INVALID,
    (COMPLETE_ABORT, _COMMIT, _RETRY): _Action.INVALID,
    (COMPLETE_ABORT, _ABORT, _FIRST): _Action.PREPARE,
    (COMPLETE_ABORT, _ABORT, _RETRY): _Action.DONE,
}
"""(state, commit, is retry) -> action, with epoch bumps."""


def decide(
    current: Transaction | None, request: EndTransaction, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    """Return the prepared transaction, NONE if it has already ended so, or the error."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.client_transaction_version >= EPOCH_BUMP:
        action = _action_with_bump(current, request)
    else:
        action = _action(current, request)
    if isinstance(action, ErrorCode):
        return action
    if action is _Action.DONE:
        return ErrorCode.NONE
    if action is _Action.INVALID:
        return ErrorCode.INVALID_TXN_STATE
    return _prepare(current, request, producer_ids, now_ms)


def _action(current: Transaction, request: EndTransaction) -> _Action | ErrorCode:
    """Return what a client of transaction version 0 or 1 causes, or the error (no epoch bump)."""
    if request.producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != current.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _ACTIONS[current.state, request.commit]


def _action_with_bump(current: Transaction, request: EndTransaction) -> _Action | ErrorCode:
    """Return what a client of transaction version 2 causes, or the error (KIP-890).

    The first request bumps the epoch, so a repeated one has the previous epoch, or the last epoch
    of the previous producer id.
    """
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
    # A state without _RETRY ended no transaction: the previous epoch was another producer's.
    return _ACTIONS_WITH_BUMP.get((current.state, request.commit, again), ErrorCode.PRODUCER_FENCED)


def _prepare(
    current: Transaction, request: EndTransaction, producer_ids: ProducerIds, now_ms: int
) -> Transaction | ErrorCode:
    """Return the transaction in its prepared state, or an error if no producer id is in stock.

    A new producer id is taken only if the bump would exceed the largest epoch.
    """
    version = request.client_transaction_version
    next_producer_id: int | None = NO_PRODUCER_ID
    if version >= EPOCH_BUMP and current.is_epoch_exhausted:
        next_producer_id = producer_ids.take()
    if next_producer_id is None:
        return NO_ID_IN_STOCK
    return current.prepared(request.commit, version, next_producer_id, now_ms)
