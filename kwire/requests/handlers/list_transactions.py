"""ListTransactions (key 66): v0-2.

Behaviour
- The transactional ids that this broker coordinates, or those in one of the states, of one of the
  producers, in a transaction for longer than the duration, and matching the pattern (KIP-664).
- Names of states that there are none of are handed back, and match nothing.
- COORDINATOR_LOAD_IN_PROGRESS and no id while some are being loaded; INVALID_REGULAR_EXPRESSION.

Version notes: the duration from v1 (KIP-994); the pattern, of whole ids, from v2 (KIP-1152).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kwire.coordinators.contract.pattern import InvalidPattern
from kwire.requests.context import Context
from kwire.txn.listing import TransactionFilter


def handle(
    broker: Broker, request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse:
    try:
        wanted = TransactionFilter.of(request)
    except InvalidPattern:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    error, listed = broker.coordinators.transactions.list_transactions(wanted)
    return ListTransactionsResponse(
        error_code=error,
        unknown_state_filters=[] if error else list(wanted.unknown_states),
        transaction_states=listed,
    )
