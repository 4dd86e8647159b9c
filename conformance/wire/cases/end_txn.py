"""Cases of EndTxn: each state, repeated, and with and without a new epoch after each end."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.conformance.access.requests import TRANSACTION
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import (
    add,
    begin_transaction,
    create_producer,
    end,
    wait_until_ended,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.END_TXN)


def access_request(version: int, topic_id: bytes) -> EndTxnRequest:
    return EndTxnRequest(TRANSACTION, 1, 0, True)


BUMP_SINCE = 5


def _end_and_ask_again(stage: Stage, *, commit: bool) -> None:
    """End a transaction, then ask for the same end and for the opposite end."""
    topic = stage.topic(partitions=2)
    producer = begin_transaction(stage, "txn", topic)
    stage.send(end(producer, commit=commit))
    wait_until_ended(stage, producer)
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))
    for again in (commit, not commit):
        stage.send(end(producer, commit=again))
        wait_until_ended(stage, producer)
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("commit, and again")
def commit_again(stage: Stage) -> None:
    _end_and_ask_again(stage, commit=True)


@case("abort, and again")
def abort_again(stage: Stage) -> None:
    _end_and_ask_again(stage, commit=False)


@case("nothing was added")
def nothing(stage: Stage) -> None:
    """A transaction without partitions is committed and aborted."""
    producer = create_producer(stage)
    for commit in (True, False):
        stage.send(end(producer, commit=commit))
        wait_until_ended(stage, producer)
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("one transaction after the other", until=BUMP_SINCE - 1)
def in_turn(stage: Stage) -> None:
    """Commits and aborts follow each other; the epoch stays the same, and partitions can be
    added."""
    topic = stage.topic(partitions=2)
    producer = begin_transaction(stage, "txn", topic)
    for commit in (True, False, False, True):
        stage.send(end(producer, commit=commit))
        wait_until_ended(stage, producer)
        stage.send(add(producer, {topic.name: [0]}), 3)


@case("one transaction after the other, each in its epoch", since=BUMP_SINCE)
def in_turn_with_bump(stage: Stage) -> None:
    """Each end raises the producer's epoch by one, and an end in the old epoch is a repetition."""
    topic = stage.topic(partitions=2)
    producer = begin_transaction(stage, "txn", topic)
    for commit in (True, False, False, True):
        stage.send(end(producer, commit=commit))
        wait_until_ended(stage, producer)
        producer = producer.other(epoch=1)
        stage.send(add(producer, {topic.name: [0]}), 3)
        stage.send(end(producer.other(epoch=-1), commit=commit))


@case("an abort that cannot know whether anything was added", since=BUMP_SINCE)
def abort_after_end(stage: Stage) -> None:
    """An abort and a commit in the new epoch, with no transaction in it.

    A producer that lost a response cannot know whether a partition was added.
    """
    producer = begin_transaction(stage, "txn", stage.topic())
    stage.send(end(producer, commit=True))
    wait_until_ended(stage, producer)
    for commit in (True, False):
        stage.send(end(producer.other(epoch=1), commit=commit))
        wait_until_ended(stage, producer)
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))


@case("other producers")
def others(stage: Stage) -> None:
    """Producers with a wrong epoch, producer id or transactional id cannot end a transaction."""
    producer = begin_transaction(stage, "txn", stage.topic())
    for commit in (True, False):
        for other in (
            producer.other(epoch=1),
            producer.other(epoch=-1),
            producer.other(epoch=-2),
            producer.other(producer_id=1000),
            producer.named(stage.name("nobody")),
            producer.named(""),
        ):
            stage.send(end(other, commit=commit))
    stage.send(DescribeTransactionsRequest([producer.transactional_id]))
