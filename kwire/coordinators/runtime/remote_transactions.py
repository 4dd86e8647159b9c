"""Questions to transaction coordinators on other brokers, by AddPartitionsToTxn (KIP-890).

Whoever takes a transactional batch asks the coordinator of its transaction whether the partition is
part of it, or has it added.  A broker is asked about many transactions at once, one request after
the other.  What an answer comes to where there is no plain one:

    the coordinator was not reached, or did not answer    NETWORK_EXCEPTION
    it does not take such questions from this broker      INVALID_TXN_STATE
    it is too old to know them (before v4)                none: the partitions are taken to be
                                                          part of it, as they were before KIP-890
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import trio

from kwire.client.errors import as_error_code
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.coordinators.runtime.promise import Promise
from kwire.txn.transaction import Partitions

log = logging.getLogger("kwire.coordinators.remote_transactions")

BROKERS_SINCE = 4
"""The version that knows several transactions, and questions."""

TRANSACTIONS_MAX = 1_000
"""In one request: some 10 ms of the coordinator's time."""

Told: TypeAlias = dict[tuple[str, int], ErrorCode]
"""By topic and partition: whether it is part of the transaction."""


class Question(NamedTuple):
    """About partitions of one transaction; `answer` is kept, if somebody waits still."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    adds: bool
    """Whether they are to be added; else it is asked whether they are."""
    answer: Promise[Told]

    def all_told(self, error: ErrorCode) -> Told:
        return {
            (topic, index): error for topic, indexes in self.partitions.items() for index in indexes
        }


class RemoteTransactions:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery) -> None:
        self._peers = peers
        self._gathering: RequestBatcher[Question] = RequestBatcher(
            nursery,
            lambda question: (question.transactional_id, id(question)),
            self._send,
            items_max=TRANSACTIONS_MAX,
        )

    def ask(self, broker_id: int, question: Question) -> None:
        """Ask the coordinator on that broker; `question.answer` is resolved with what it says."""
        self._gathering.add(broker_id, question)

    async def _send(self, broker_id: int, questions: list[Question]) -> None:
        request = AddPartitionsToTxnRequest([_transaction(question) for question in questions])
        peer = self._peers.peer(broker_id, Role.VERIFICATION)
        try:
            if await peer.version_for(request) < BROKERS_SINCE:
                _answer_all(questions, ErrorCode.NONE)
                return
            response = await peer.call(request)
        except PeerError as problem:
            log.info("%d transactions are not verified: %s", len(questions), problem)
            _answer_all(questions, ErrorCode.NETWORK_EXCEPTION)
        else:
            _answer(questions, response)


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(topic, sorted(indexes))
            for topic, indexes in question.partitions.items()
        ],
    )


def _answer_all(questions: Iterable[Question], error: ErrorCode) -> None:
    for question in questions:
        question.answer.resolve(question.all_told(error))


def _answer(questions: Iterable[Question], response: AddPartitionsToTxnResponse) -> None:
    if response.error_code:
        error = as_error_code(response.error_code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            error = ErrorCode.INVALID_TXN_STATE
        _answer_all(questions, error)
        return
    results = {each.transactional_id: each for each in response.results_by_transaction}
    for question in questions:
        told = question.all_told(ErrorCode.NETWORK_EXCEPTION)
        result = results.get(question.transactional_id)
        for topic in () if result is None else result.topic_results:
            for each in topic.results_by_partition:
                told[topic.name, each.partition_index] = as_error_code(each.partition_error_code)
        question.answer.resolve(told)
