"""DescribeTransactions (key 65): v0.

Behaviour
- The response has the state of each transactional id: its producer, timeout, start time and the
  partitions of its open transaction, if any (KIP-664).  Ids stand in the order of the request, as
  often as in the request.
- TRANSACTIONAL_ID_NOT_FOUND for an unknown id, INVALID_REQUEST for an empty one, NOT_COORDINATOR
  for one that another broker coordinates.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    replies = [
        broker.coordinators.transactions.describe(transactional_id)
        for transactional_id in request.transactional_ids
    ]
    return then_all(replies, _response)


def _response(states: list[TransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=states)
