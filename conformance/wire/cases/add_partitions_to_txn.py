"""Cases of AddPartitionsToTxn: clients (v0-3), brokers (v4-5), and partitions that it refuses."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.conformance.access.requests import INDEX, TOPIC, TRANSACTION
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import (
    CLIENTS,
    add,
    begin_transaction,
    broker_transaction,
    create_producer,
    end,
    end_transaction,
    wait_until_ended,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ADD_PARTITIONS_TO_TXN)


def access_request(version: int, topic_id: bytes) -> AddPartitionsToTxnRequest:
    """Return an addition as clients send it, or from version 4 on a verification by a broker."""
    topics = [AddPartitionsToTxnTopic(TOPIC, [INDEX])]
    if version < 4:
        return AddPartitionsToTxnRequest([], TRANSACTION, 1, 0, topics)
    transaction = AddPartitionsToTxnTransaction(TRANSACTION, 1, 0, True, topics)
    return AddPartitionsToTxnRequest([transaction])


BROKERS = CLIENTS + 1


@case("partitions that are new and partitions that are there", until=CLIENTS)
def new(stage: Stage) -> None:
    """Partitions are added to a new transaction, in part again; a repetition is no error."""
    topic = stage.topic(partitions=3)
    producer = create_producer(stage)
    for partitions in ([0, 1], [0, 1], [1, 2], [2, 2]):
        stage.send(add(producer, {topic.name: partitions}))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("no partitions", until=CLIENTS)
def none(stage: Stage) -> None:
    """A request without partitions, or without topics, is answered; the transaction state
    follows."""
    topic = stage.topic()
    producer = create_producer(stage)
    stage.send(add(producer, {topic.name: []}))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))
    stage.send(add(producer, {}))
    stage.send(end(producer, commit=True), 4)


@case("partitions that do not exist", until=CLIENTS)
def unknown(stage: Stage) -> None:
    """One invalid partition, or an invalid topic name, decides the errors of all partitions.

    The last request shows which partitions were added nevertheless.
    """
    topic = stage.topic(partitions=2)
    producer = create_producer(stage)
    for partitions in (
        {topic.name: [0, 2]},
        {topic.name: [-1]},
        {stage.name("no-such-topic"): [0], topic.name: [1]},
        {"": [0]},
        {"a b": [0]},
    ):
        stage.send(add(producer, partitions))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("partitions of internal topics", until=CLIENTS)
def internal(stage: Stage) -> None:
    """Partitions of Kafka's internal topics cannot be added to a transaction by a client."""
    topic = stage.topic()
    producer = create_producer(stage)
    for name in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        stage.send(add(producer, {name: [0], topic.name: [0]}))
    stage.send(add(producer, {"__consumer_offsets": [0], stage.name("no-such-topic"): [0]}))


@case("other producers", until=CLIENTS)
def others(stage: Stage) -> None:
    """Producers with a wrong epoch, producer id or transactional id cannot add partitions."""
    topic = stage.topic()
    create_producer(stage)
    producer = create_producer(stage)
    for other in (
        producer.other(epoch=1),
        producer.other(epoch=-1),
        producer.other(epoch=-2),
        producer.other(producer_id=1000),
        producer.other(producer_id=1000, epoch=-1),
        producer.named(stage.name("nobody")),
        producer.named(""),
    ):
        stage.send(add(other, {topic.name: [0]}))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("after each end", until=CLIENTS)
def after_ends(stage: Stage) -> None:
    """Partitions can be added again after a commit and after an abort: a new transaction starts."""
    topic = stage.topic(partitions=2)
    producer = begin_transaction(stage, "txn", topic)
    for commit in (True, False):
        end_transaction(stage, producer, commit=commit)
        stage.send(add(producer, {topic.name: [1]}))
        stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("several transactions", since=BROKERS)
def several(stage: Stage) -> None:
    """One request of a broker has four transactions, and each gets its own result.

    They are: an addition, a verification, an unknown transactional id and a wrong epoch.
    """
    topic = stage.topic(partitions=3)
    first, second, third = (begin_transaction(stage, name, topic) for name in "abc")
    stage.send(
        AddPartitionsToTxnRequest(
            [
                broker_transaction(first, {topic.name: [0, 2]}),
                broker_transaction(second, {topic.name: [1]}, verify_only=True),
                broker_transaction(first.named(stage.name("nobody")), {topic.name: [0]}),
                broker_transaction(third.other(epoch=1), {topic.name: [0]}),
            ]
        )
    )
    names = [first.transactional_id, second.transactional_id]
    stage.send(DescribeTransactionsRequest(names))


@case("verification", since=BROKERS)
def verification(stage: Stage) -> None:
    """A broker verifies that partitions belong to an ongoing transaction, without adding any.

    Wrong partitions, producers and ids are tried, and a transaction that has ended.
    """
    topic, other = stage.topic(partitions=2), stage.topic("other")
    producer = begin_transaction(stage, "txn", topic)
    for transaction in (
        broker_transaction(producer, {topic.name: [0, 1], other.name: [0]}, verify_only=True),
        broker_transaction(producer, {topic.name: [0, 9]}, verify_only=True),
        broker_transaction(producer, {stage.name("no-such-topic"): [0]}, verify_only=True),
        broker_transaction(producer, {topic.name: []}, verify_only=True),
        broker_transaction(producer, {}, verify_only=True),
        broker_transaction(producer.other(epoch=1), {topic.name: [0]}, verify_only=True),
        broker_transaction(producer.other(epoch=-1), {topic.name: [0]}, verify_only=True),
        broker_transaction(producer.other(producer_id=1000), {topic.name: [0]}, verify_only=True),
        broker_transaction(
            producer.named(stage.name("nobody")), {topic.name: [0]}, verify_only=True
        ),
        broker_transaction(producer.named(""), {topic.name: [0]}, verify_only=True),
    ):
        stage.send(AddPartitionsToTxnRequest([transaction]))
    end_transaction(stage, producer)
    transaction = broker_transaction(producer, {topic.name: [0]}, verify_only=True)
    stage.send(AddPartitionsToTxnRequest([transaction]))


@case("adding as a broker", since=BROKERS)
def as_broker(stage: Stage) -> None:
    """A broker adds partitions, valid and invalid, then tries three epochs after the commit.

    The end at version 5 raises the producer's epoch, so only one of the epochs 0, 1 and 2 is
    current.
    """
    topic = stage.topic(partitions=2)
    producer = create_producer(stage)
    for transaction in (
        broker_transaction(producer.named(""), {topic.name: [0]}),
        broker_transaction(producer, {topic.name: [0, 7]}),
        broker_transaction(producer, {}),
        broker_transaction(producer, {topic.name: [], stage.name("no-such-topic"): []}),
        broker_transaction(producer, {topic.name: [], stage.name("no-such-topic"): [0]}),
        broker_transaction(producer, {topic.name: [0]}),
        broker_transaction(producer, {topic.name: [0, 1]}),
    ):
        stage.send(AddPartitionsToTxnRequest([transaction]))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))
    stage.send(end(producer, commit=True), 5)
    wait_until_ended(stage, producer)
    for epoch in (0, 1, 2):
        transaction = broker_transaction(producer.other(epoch=epoch), {topic.name: [0]})
        stage.send(AddPartitionsToTxnRequest([transaction]))
