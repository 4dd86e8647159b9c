"""DescribeTransactions (key 65): v0.

Behaviour
- How each transactional id stands: its state, producer, timeout, start, and the partitions of its
  transaction, if there is one (KIP-664).  Ids are answered in the order they are asked, as often as
  they are.
- TRANSACTIONAL_ID_NOT_FOUND for one that nobody used, INVALID_REQUEST for the empty one,
  NOT_COORDINATOR for one that lives elsewhere.
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
        broker.coordinators.transactions.describe(each) for each in request.transactional_ids
    ]
    return then_all(replies, _response)


def _response(states: list[TransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=states)
