"""Cases of DescribeTransactions: each lasting state."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.conformance.access.requests import TRANSACTION
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import begin_transaction, create_producer, end_transaction
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_TRANSACTIONS)


def access_request(version: int, topic_id: bytes) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest([TRANSACTION])


@case("each state")
def states(stage: Stage) -> None:
    """Transactions in each lasting state are described, also in another order and with a
    repetition."""
    topic, other = stage.topic(partitions=3), stage.topic("other")
    producers = [create_producer(stage, "empty"), begin_transaction(stage, "open", topic, other)]
    for commit in (True, False):
        producers.append(begin_transaction(stage, f"ended-{commit}", topic))
        end_transaction(stage, producers[-1], commit=commit)
    names = [producer.transactional_id for producer in producers]
    stage.send(DescribeTransactionsRequest(names))
    stage.send(DescribeTransactionsRequest([names[1], names[0], names[1]]))


case.requests(
    {
        "an unknown id": lambda stage: DescribeTransactionsRequest([stage.name("nobody")]),
        "the empty id": lambda stage: DescribeTransactionsRequest([""]),
        "no ids": lambda _: DescribeTransactionsRequest([]),
    }
)
