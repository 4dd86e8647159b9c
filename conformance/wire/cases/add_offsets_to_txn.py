"""Cases of AddOffsetsToTxn: group ids, and producers that may not add offsets."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.conformance.access.requests import GROUP, TRANSACTION
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import (
    CaseProducer,
    begin_transaction,
    create_producer,
    end_transaction,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ADD_OFFSETS_TO_TXN)


def access_request(version: int, topic_id: bytes) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(TRANSACTION, 1, 0, GROUP)


def ask(producer: CaseProducer, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        producer.transactional_id, producer.producer_id, producer.epoch, group_id
    )


@case("groups")
def groups(stage: Stage) -> None:
    """Groups are added: new, repeated, with an empty id, with characters outside of ASCII."""
    producer = create_producer(stage)
    for group_id in ("g", "g", "another", "", "\u00e9 x"):
        stage.send(ask(producer, group_id))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("in a transaction, and after it")
def in_transaction(stage: Stage) -> None:
    """A group is added to a transaction with partitions, and after its abort to a new one."""
    producer = begin_transaction(stage, "txn", stage.topic())
    stage.send(ask(producer, "g"))
    end_transaction(stage, producer, commit=False)
    stage.send(ask(producer, "g"))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("other producers")
def others(stage: Stage) -> None:
    """Producers with a wrong epoch, producer id or transactional id cannot add a group.

    The last request shows that the transaction has not changed.
    """
    producer = create_producer(stage)
    for other in (
        producer.other(epoch=1),
        producer.other(epoch=-1),
        producer.other(producer_id=1000),
        producer.named(stage.name("nobody")),
        producer.named(""),
    ):
        stage.send(ask(other, "g"))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))
