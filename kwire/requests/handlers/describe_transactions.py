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
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kwire.coordinators.runtime.promise import then_all
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
)


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Return the state of each transactional id, as its coordinator describes it."""
    replies = [
        broker.coordinators.transactions.describe(transactional_id)
        for transactional_id in request.transactional_ids
    ]
    return then_all(replies, _response)


def _response(states: list[TransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=states)


# -- rights


def guard(access: Access, request: DescribeTransactionsRequest, proceed: Proceed) -> Response:
    """Require DESCRIBE on each transactional id; refuse the others one by one.

    The states have only topics that the sender may describe.
    """
    requested_ids = request.transactional_ids
    permitted = access.permitted(
        AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, requested_ids
    )
    request.transactional_ids = [id_ for id_ in requested_ids if id_ in permitted]

    def merge(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        """Put the refused ids in their places, and hide topics that the sender may not describe."""
        allowed_states = iter(response.transaction_states)
        states = []
        for transactional_id in requested_ids:
            if transactional_id in permitted:
                states.append(_with_visible_topics(access, next(allowed_states)))
            else:
                states.append(
                    TransactionState(
                        error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        transactional_id=transactional_id,
                    )
                )
        response.transaction_states = states
        return response

    return reshaped(proceed(request), merge)


def _with_visible_topics(access: Access, state: TransactionState) -> TransactionState:
    """Remove topics that the sender may not describe from `state`; return it."""
    state.topics = [
        topic
        for topic in state.topics
        if access.on_topic(AclOperation.DESCRIBE, topic.topic, quiet=True)
    ]
    return state
