"""ListTransactions (key 66): v0-2.

Behaviour
- The response has the transactional ids that this broker coordinates.  Filters restrict it to
  states, producer ids, transactions that are open for longer than a duration, and ids that match a
  pattern (KIP-664).
- Unknown names of states match nothing and are returned.
- COORDINATOR_LOAD_IN_PROGRESS and no id while some are being loaded; INVALID_REGULAR_EXPRESSION for
  an invalid pattern.

Version notes: the duration from v1 (KIP-994); the pattern, which matches whole ids, from v2
(KIP-1152).
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kwire.coordinators.contract.pattern import InvalidRegex
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.txn.listing import TransactionFilter

ROUTE = Route(
    ApiKey.LIST_TRANSACTIONS, 0, 2, Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse:
    """Return the transactional ids that this broker coordinates and the filter matches."""
    try:
        transaction_filter = TransactionFilter.of(request)
    except InvalidRegex:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    error, listed = broker.coordinators.transactions.list_transactions(transaction_filter)
    return ListTransactionsResponse(
        error_code=error,
        unknown_state_filters=[] if error else list(transaction_filter.unknown_states),
        transaction_states=listed,
    )


# -- rights


def guard(access: Access, request: ListTransactionsRequest, proceed: Proceed) -> Response:
    """Remove transactional ids that the sender may not describe from the response."""

    def merge(response: ListTransactionsResponse) -> ListTransactionsResponse:
        """Keep only transactional ids that the sender may describe."""
        response.transaction_states = [
            state
            for state in response.transaction_states
            if access.may(
                AclOperation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                state.transactional_id,
                quiet=True,
            )
        ]
        return response

    return reshaped(proceed(request), merge)
