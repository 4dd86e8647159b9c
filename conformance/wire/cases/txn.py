"""Producers and transactions that the cases on transactions start from."""

from __future__ import annotations

import time
from collections.abc import Callable

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.wire.broker import POLL_S, READY_TIMEOUT_S, TRANSIENT, CaseTopic, NotReady
from kwire.conformance.wire.stage import Stage

TIMEOUT_MS = 60_000
NOT_YET = TRANSIENT | {ErrorCode.CONCURRENT_TRANSACTIONS}
CLIENTS = 3
"""The last version of AddPartitionsToTxn for clients; newer ones are for brokers."""
WITHOUT_BUMP = 4
"""The last version of EndTxn that does not increase the producer's epoch."""


class CaseProducer:
    """A transactional id with its producer's id and epoch."""

    def __init__(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch

    def other(self, *, producer_id: int = 0, epoch: int = 0) -> CaseProducer:
        """Return a copy whose id and epoch are increased by these numbers."""
        return CaseProducer(
            self.transactional_id, self.producer_id + producer_id, self.epoch + epoch
        )

    def named(self, transactional_id: str) -> CaseProducer:
        """Return a copy with another transactional id."""
        return CaseProducer(transactional_id, self.producer_id, self.epoch)


def create_producer(stage: Stage, suffix: str = "txn") -> CaseProducer:
    """Return a producer with a transactional id of this case and no open transaction."""
    name = stage.name(suffix)
    producers: list[CaseProducer] = []

    def ready() -> bool:
        """Ask for a producer id; return False while the coordinator is not ready.

        Raise NotReady for any other error.
        """
        reply = stage.ask(InitProducerIdRequest(name, TIMEOUT_MS))
        if reply.error_code == ErrorCode.NONE:
            producers.append(CaseProducer(name, reply.producer_id, reply.producer_epoch))
        elif reply.error_code not in NOT_YET:
            raise NotReady(f"producer {name}: {ErrorCode(reply.error_code).name}")
        return bool(producers)

    _until(ready, f"no producer for {name}")
    return producers[0]


def begin_transaction(stage: Stage, suffix: str = "txn", *topics: CaseTopic) -> CaseProducer:
    """Return a producer with all partitions of `topics` in its transaction."""
    producer = create_producer(stage, suffix)
    for topic in topics:
        stage.ask(add(producer, {topic.name: list(range(topic.partitions))}), CLIENTS)
    return producer


def end_transaction(stage: Stage, producer: CaseProducer, *, commit: bool = True) -> None:
    """End the producer's transaction and wait until it has ended; its epoch stays the same."""
    stage.ask(end(producer, commit=commit), WITHOUT_BUMP)
    wait_until_ended(stage, producer)


def wait_until_ended(stage: Stage, producer: CaseProducer) -> None:
    """Wait until the transaction is no longer prepared to commit or abort."""

    def ready() -> bool:
        reply = stage.ask(DescribeTransactionsRequest([producer.transactional_id]))
        return not reply.transaction_states[0].transaction_state.startswith("Prepare")

    _until(ready, f"the transaction of {producer.transactional_id} does not end")


def add(producer: CaseProducer, partitions: dict[str, list[int]]) -> AddPartitionsToTxnRequest:
    """Return an AddPartitionsToTxn request as clients send it, up to version 3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*item) for item in partitions.items()],
    )


def broker_transaction(
    producer: CaseProducer, partitions: dict[str, list[int]], *, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    """Return one transaction of an AddPartitionsToTxn request of a broker, from version 4."""
    return AddPartitionsToTxnTransaction(
        producer.transactional_id,
        producer.producer_id,
        producer.epoch,
        verify_only,
        [AddPartitionsToTxnTopic(*item) for item in partitions.items()],
    )


def end(producer: CaseProducer, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(producer.transactional_id, producer.producer_id, producer.epoch, commit)


def _until(ready: Callable[[], bool], what: str) -> None:
    """Wait until `ready`; raise NotReady after READY_TIMEOUT_S seconds."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not ready():
        if time.monotonic() > deadline:
            raise NotReady(what)
        time.sleep(POLL_S)
