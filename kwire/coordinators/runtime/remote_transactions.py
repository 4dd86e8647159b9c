"""Sends AddPartitionsToTxn to transaction coordinators on other brokers (KIP-890).

The leader that receives a transactional batch asks the transaction's coordinator whether the
partition is part of the transaction, or asks it to add the partition.  Queries to one broker are
collected: one request holds many transactions, and a broker gets one request at a time.

Results if the coordinator gives no answer for a partition:

    it cannot be reached, or does not respond              NETWORK_EXCEPTION
    it denies this broker the right to ask                 INVALID_TXN_STATE
    it does not support such requests (needs version 4)    NONE: the partition counts as part of
                                                           the transaction, as before KIP-890
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode, as_error_code
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
"""First version for brokers: it holds several transactions, and can verify without adding."""

TRANSACTIONS_MAX = 1_000
"""Transactions in one request; the coordinator needs about 10 ms for them."""

PartitionErrors: TypeAlias = dict[tuple[str, int], ErrorCode]
"""(topic, partition) -> NONE if it is part of the transaction, else why not."""


class PartitionsQuery(NamedTuple):
    """A query about partitions of one transaction; `answer` is resolved with the result."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    adds: bool
    """True: add the partitions.  False: only verify them."""
    answer: Promise[PartitionErrors]

    def error_for_all(self, error: ErrorCode) -> PartitionErrors:
        return {
            (topic, index): error for topic, indexes in self.partitions.items() for index in indexes
        }


class RemoteTransactions:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery) -> None:
        """`nursery` runs the tasks that send requests."""
        self._peers = peers
        self._gathering: RequestBatcher[PartitionsQuery] = RequestBatcher(
            nursery,
            # Two queries about one transactional id never share a request: its response has one
            # result for the id.
            lambda query: (query.transactional_id, id(query)),
            self._send,
            items_max=TRANSACTIONS_MAX,
        )

    def ask(self, broker_id: int, query: PartitionsQuery) -> None:
        """Ask the coordinator on that broker, and resolve `query.answer` with the result."""
        self._gathering.add(broker_id, query)

    async def _send(self, broker_id: int, queries: list[PartitionsQuery]) -> None:
        """Sends the queries in one request and resolves each with its result.

        A broker that is too old for it cannot verify transactions: then they pass without
        verification.
        """
        request = AddPartitionsToTxnRequest([_transaction(query) for query in queries])
        peer = self._peers.peer(broker_id, Role.VERIFICATION)
        try:
            if await peer.version_for(request) < BROKERS_SINCE:
                _answer_all(queries, ErrorCode.NONE)
                return
            response = await peer.call(request)
        except PeerError as error:
            log.info(
                "Cannot verify %d transactions with broker %d: %s. Their producers try again.",
                len(queries),
                broker_id,
                error,
            )
            _answer_all(queries, ErrorCode.NETWORK_EXCEPTION)
        else:
            _answer(queries, response)


def _transaction(query: PartitionsQuery) -> AddPartitionsToTxnTransaction:
    """Return the part of AddPartitionsToTxn about one transaction."""
    return AddPartitionsToTxnTransaction(
        transactional_id=query.transactional_id,
        producer_id=query.producer_id,
        producer_epoch=query.producer_epoch,
        verify_only=not query.adds,
        topics=[
            AddPartitionsToTxnTopic(topic, sorted(indexes))
            for topic, indexes in query.partitions.items()
        ],
    )


def _answer_all(queries: Iterable[PartitionsQuery], error: ErrorCode) -> None:
    for query in queries:
        query.answer.resolve(query.error_for_all(error))


def _answer(queries: Iterable[PartitionsQuery], response: AddPartitionsToTxnResponse) -> None:
    """Resolves each query with the errors of its partitions.

    A partition that the response leaves out gets NETWORK_EXCEPTION, so that its producer tries
    again.
    """
    if response.error_code:
        error = as_error_code(response.error_code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # The broker lacks the right, not the client: the client must not see it.
            error = ErrorCode.INVALID_TXN_STATE
        _answer_all(queries, error)
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for query in queries:
        errors = query.error_for_all(ErrorCode.NETWORK_EXCEPTION)
        result = results.get(query.transactional_id)
        for topic in () if result is None else result.topic_results:
            for partition in topic.results_by_partition:
                error = as_error_code(partition.partition_error_code)
                errors[topic.name, partition.partition_index] = error
        query.answer.resolve(errors)
