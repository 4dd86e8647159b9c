"""The transaction coordinator of this broker: finds the partition of an id, runs its operations.

A transactional id is stored in the partition of `__transaction_state` that it hashes to; the leader
of that partition is its coordinator.  Each operation returns its answer, or a promise of it if its
records have to be committed first.

Errors that a request gets before it reaches its transaction:

    the id is empty                                             INVALID_REQUEST
    another broker leads the partition, or it does not exist    NOT_COORDINATOR
    the partition is still being replayed                       COORDINATOR_LOAD_IN_PROGRESS

A machine takes a producer id while it decides, and cannot wait then.  So an operation that may need
one first waits until producer ids are in stock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kwire.cluster.metadata.topic_names import TRANSACTION_STATE_TOPIC
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_transactions import TransactionState as DescribedTransaction
from kwire.codecs.messages.list_transactions import TransactionState as ListedTransaction
from kwire.coordinators.contract.effects import Ticket
from kwire.coordinators.runtime.markers import MarkerSender, Settle, Write
from kwire.coordinators.runtime.promise import Promise, answered
from kwire.coordinators.runtime.runtime import CoordinatorRuntime, ShardState
from kwire.groups.java import partition_for
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.txn_marker import MarkerWriter, TransactionalTopic, TxnMarker
from kwire.txn.effects import Markers, ProducerAnswer, TransactionEffects
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
from kwire.txn.limits import TransactionLimits
from kwire.txn.listing import TransactionFilter
from kwire.txn.machine import TransactionMachine
from kwire.txn.transaction import Partitions

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.peers.peers import Peers
    from kwire.coordinators.runtime.remote_markers import RemoteMarkers
    from kwire.coordinators.runtime.remote_transactions import RemoteTransactions
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.coordinators.transactions")

T = TypeVar("T")
PartitionErrors = dict[tuple[str, int], ErrorCode]
"""(topic, partition) -> NONE if it is part of the transaction, else why not."""


def limits_of(config: BrokerConfig) -> TransactionLimits:
    """Return the limits of transactions that the broker's settings give, in ms."""
    abort_interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    remove_interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
    return TransactionLimits(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        abort_timed_out_interval_ms=abort_interval_ms,
        remove_expired_interval_ms=remove_interval_ms,
    )


class _ClusterWriter:
    """Writes the marker of one transaction to partitions of any broker."""

    __slots__ = ("here", "write")

    def __init__(self, here: MarkerWriter, write: Write) -> None:
        """`here` serves partitions that this broker leads, `write` serves all."""
        self.here = here
        self.write = write

    def __call__(self, topic: str, index: int) -> ErrorCode | None:
        return self.write(topic, index)


def _here(writer: Write) -> MarkerWriter | None:
    """Return what writes to partitions that this broker leads; None if nothing may be written."""
    if isinstance(writer, _ClusterWriter):
        return writer.here
    return writer if isinstance(writer, MarkerWriter) else None


class TransactionCoordinator:
    """See the module."""

    def __init__(self, node: Node, groups: Callable[[], TransactionalTopic]) -> None:
        """`groups` returns the group coordinator: it writes markers to `__consumer_offsets`."""
        config = node.settings.static_config
        self.limits = limits_of(config)
        self._node = node
        self._groups = groups
        self._counted_in: ClusterImage | None = None
        """The metadata in which `__transaction_state` has `_partitions`; 0 if it does not exist."""
        self._partitions = 0
        self._remote_markers: RemoteMarkers | None = None
        self._remote_transactions: RemoteTransactions | None = None
        self._markers = MarkerSender(
            self, self._complete, self._send_again, node.timers, node.shared_work
        )
        self.runtime = CoordinatorRuntime(
            lambda: TransactionMachine(self.limits, node.producer_ids.ids, self._markers),
            timers=node.timers,
            now_ms=node.now_ms,
            commit_timeout_ms=config.request_timeout_ms,
            # In a cluster the next leader would have to write the markers again.
            defers=node.peers is None,
        )

    # -- which partitions are led here

    def lead(self, partition: Partition) -> None:
        """Replays and serves a partition of `__transaction_state` that this broker leads now."""
        if self.runtime.serves(partition):
            return
        self._forget_markers(partition.index)
        shard = self.runtime.lead(partition)
        if shard is not None:
            # Aborting timed-out transactions may need producer ids as soon as they are loaded.
            self._node.running_nursery.start_soon(self._restock_producer_ids)
            self._node.running_nursery.start_soon(shard.load)

    def resign(self, index: int) -> None:
        """Stop serving a partition; its next leader writes the markers that are left."""
        self.runtime.resign(index)
        self._forget_markers(index)

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition that stores the id; -1 while metadata lacks the topic.

        This broker may already lead partitions of the topic then, because LeaderAndIsr arrives
        before UpdateMetadata.
        """
        image = self._node.image
        if image is not self._counted_in:  # each transaction asks several times
            topic = image.topics.get(TRANSACTION_STATE_TOPIC)
            self._partitions = 0 if topic is None else len(topic.partitions)
            self._counted_in = image
        partitions = self._partitions
        return partition_for(transactional_id, partitions) if partitions else -1

    def _forget_markers(self, index: int) -> None:
        self._markers.drop(lambda transactional_id: self.partition_for(transactional_id) == index)

    # -- operations of producers

    def init_producer_id(
        self, request: ProducerInitialization
    ) -> ProducerAnswer | Awaitable[ProducerAnswer]:
        """InitProducerId: returns the producer's id and its new epoch.

        An open transaction of the same transactional id is aborted first.
        """
        invalid = request.invalid(self.limits)
        if invalid is not ErrorCode.NONE:
            return ProducerAnswer(invalid)
        return self._with_producer_ids(
            lambda: self._submit(
                request.transactional_id,
                lambda machine, ticket, now_ms: machine.init_producer_id(request, ticket, now_ms),
                ProducerAnswer,
            )
        )

    def end_txn(self, request: EndTransaction) -> ProducerAnswer | Awaitable[ProducerAnswer]:
        """EndTxn: commits or aborts a transaction.

        The reply comes once the decision is committed; markers are written after that.
        """
        if not request.transactional_id:
            return ProducerAnswer(ErrorCode.INVALID_REQUEST)
        if not self._node.producer_ids.ids:
            return self._restock_first(lambda: self._end_txn(request))
        reply = self._end_txn(request)
        return reply.wait() if isinstance(reply, Promise) else reply

    def _end_txn(self, request: EndTransaction) -> ProducerAnswer | Promise[ProducerAnswer]:
        return self._submit(
            request.transactional_id,
            lambda machine, ticket, now_ms: machine.end_txn(request, ticket, now_ms),
            ProducerAnswer,
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_transaction_version: int,
    ) -> ErrorCode | Promise[ErrorCode]:
        """AddPartitionsToTxn: adds partitions to a transaction.

        One error counts for all partitions; NONE if all were added.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self.runtime.submit(
            self.partition_for(transactional_id),
            lambda machine, ticket, now_ms: machine.add_partitions(
                transactional_id,
                producer_id,
                producer_epoch,
                partitions,
                client_transaction_version,
                ticket,
                now_ms,
            ),
            lambda error: error,
        )

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
    ) -> PartitionErrors | Promise[PartitionErrors]:
        """Checks whether each partition is part of the producer's transaction (KIP-890, part 1)."""

        def error_for_all(error: ErrorCode) -> PartitionErrors:
            return {
                (topic, index): error for topic, indexes in partitions.items() for index in indexes
            }

        if not transactional_id:
            return error_for_all(ErrorCode.INVALID_REQUEST)
        return self.runtime.submit(
            self.partition_for(transactional_id),
            lambda machine, ticket, _: TransactionEffects.reply(
                ticket, machine.verify(transactional_id, producer_id, producer_epoch, partitions)
            ),
            error_for_all,
        )

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Whether another broker is the coordinator of this id, or no broker is at the moment."""
        return self._coordinator_of(transactional_id) != self._node.node_id

    def _coordinator_of(self, transactional_id: str) -> int | None:
        index = self.partition_for(transactional_id)
        return self._node.image.leader_of(TRANSACTION_STATE_TOPIC, index)

    def ask_elsewhere(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        *,
        adds: bool,
    ) -> PartitionErrors | Promise[PartitionErrors]:
        """Asks the coordinator on another broker to verify partitions.

        With `adds` it asks to add them to the transaction instead.
        """
        from kwire.coordinators.runtime.remote_transactions import (
            PartitionsQuery,
            RemoteTransactions,
        )

        answer: Promise[PartitionErrors] = Promise()
        query = PartitionsQuery(
            transactional_id, producer_id, producer_epoch, partitions, adds, answer
        )
        coordinator_id = self._coordinator_of(transactional_id)
        if coordinator_id is None:
            return query.error_for_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        remote = self._remote_transactions
        if remote is None:
            assert self._node.peers is not None, "a broker without a cluster coordinates all ids"
            remote = RemoteTransactions(self._node.peers, self._node.running_nursery)
            self._remote_transactions = remote
        remote.ask(coordinator_id, query)
        return answer

    def _submit(
        self,
        transactional_id: str,
        decide: Callable[[TransactionMachine, Ticket, int], TransactionEffects],
        refuse: Callable[[ErrorCode], T],
    ) -> T | Promise[T]:
        """Submits an operation that may end a transaction.

        If the transaction has few partitions, its markers are written before the reply is sent.
        """
        self._markers.at_once = True
        try:
            return self.runtime.submit(self.partition_for(transactional_id), decide, refuse)
        finally:
            self._markers.at_once = False

    # -- queries

    def describe(
        self, transactional_id: str
    ) -> DescribedTransaction | Promise[DescribedTransaction]:
        """DescribeTransactions: returns the state of a transactional id."""

        def refused(error: ErrorCode) -> DescribedTransaction:
            return DescribedTransaction(transactional_id=transactional_id, error_code=error)

        if not transactional_id:
            return refused(ErrorCode.INVALID_REQUEST)
        return self.runtime.submit(
            self.partition_for(transactional_id),
            lambda machine, ticket, _: TransactionEffects.reply(
                ticket, machine.describe(transactional_id)
            ),
            refused,
        )

    def list_transactions(
        self, wanted: TransactionFilter
    ) -> tuple[ErrorCode, list[ListedTransaction]]:
        """Return the transactions of all partitions led here.

        While a partition is loading: none and COORDINATOR_LOAD_IN_PROGRESS.
        """
        now_ms = self._node.now_ms()
        listed: list[ListedTransaction] = []
        for shard in self.runtime.shards.values():
            if shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return shard.error, []
            if shard.error is ErrorCode.NONE:
                listed += shard.machine.list_transactions(wanted, now_ms)
        return ErrorCode.NONE, listed

    # -- producer ids

    def _with_producer_ids(self, operation: Callable[[], T | Promise[T]]) -> T | Awaitable[T]:
        """Run an operation that may take a producer id, once some are in stock."""
        if not self._node.producer_ids.ids:
            return self._restock_first(operation)
        reply = operation()
        return reply.wait() if isinstance(reply, Promise) else reply

    async def _restock_first(self, operation: Callable[[], T | Promise[T]]) -> T:
        """Restock, then run the operation even if that failed: it may not need a producer id."""
        await self._restock_producer_ids()
        return await answered(operation())

    async def _restock_producer_ids(self) -> None:
        """Gets producer ids from the store if few are left."""
        try:
            await self._node.producer_ids.restock()
        except StoreError as error:
            log.error("Cannot get producer ids: %s. The next request tries again.", error)

    # -- markers: this class is the Destinations of the MarkerSender

    def exists(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists in the cluster.

        True for every topic while metadata does not have `__transaction_state`: then this broker
        has no metadata yet.
        """
        topics = self._node.image.topics
        topic_image = topics.get(topic)
        if topic_image is None:
            return TRANSACTION_STATE_TOPIC not in topics
        return partition < len(topic_image.partitions)

    def write(
        self, topic: str, partition: int, writers: Sequence[Write]
    ) -> Sequence[ErrorCode | None]:
        """Write markers of several transactions to one partition, together if it is led here."""
        node = self._node
        if node.peers is None or node.image.leader_of(topic, partition) == node.node_id:
            here = [writer for writer in map(_here, writers) if writer is not None]
            if len(here) == len(writers):
                return MarkerWriter.write_together(here, topic, partition)
        return [writer(topic, partition) for writer in writers]

    def writer(self, markers: Markers, settle: Settle) -> Write:
        """Return the function that writes a transaction's marker to one partition.

        It returns an error (NONE: written), or None if `settle` gets the result later.  If this
        broker no longer coordinates the transactional id, it always returns an error.
        """
        index = self.partition_for(markers.transactional_id)
        shard = self.runtime.shards.get(index)
        # The metadata does not have `__transaction_state` yet: the broker has just started.
        if index < 0:
            return lambda topic, partition: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if shard is None:
            return lambda topic, partition: ErrorCode.TRANSACTION_COORDINATOR_FENCED
        marker = TxnMarker(
            markers.producer_id,
            markers.producer_epoch,
            shard.partition.leader_epoch,
            markers.commit,
            markers.transaction_version,
        )
        here = MarkerWriter(self._node.hosted, self._groups, marker, settle, self._node.now_ms())
        peers = self._node.peers
        if peers is None:
            return here
        return self._cluster_writer(peers, marker, here, settle, lambda: shard.serves)

    def _cluster_writer(
        self,
        peers: Peers,
        marker: TxnMarker,
        here: MarkerWriter,
        settle: Settle,
        is_wanted: Callable[[], bool],
    ) -> Write:
        """Return a writer that sends each marker to the partition's present leader."""
        from kwire.coordinators.runtime.remote_markers import RemoteMarker, RemoteMarkers

        node = self._node
        remote = self._remote_markers
        if remote is None:
            remote = RemoteMarkers(
                peers, node.running_nursery, node.settings.static_config.request_timeout_ms
            )
            self._remote_markers = remote

        def write(topic: str, index: int) -> ErrorCode | None:
            """Writes the marker here, or sends it to the leader.

            Returns None in the second case: `settle` gets the result.
            """
            leader = node.image.leader_of(topic, index)
            if leader == node.node_id:
                return here(topic, index)
            if leader is None:
                return ErrorCode.LEADER_NOT_AVAILABLE
            remote.send(leader, RemoteMarker(marker, topic, index, settle, is_wanted))
            return None

        return _ClusterWriter(here, write)

    def _complete(self, markers: Markers) -> bool:
        """Completes a transaction whose markers are all written.

        Returns True once the completion is in the log, or if another broker has to complete it.
        """
        index = self.partition_for(markers.transactional_id)
        shard = self.runtime.shards.get(index)
        if shard is None or shard.state is not ShardState.ACTIVE:
            return index >= 0
        shard.carry_out(shard.machine.markers_written(markers, self._node.now_ms()))
        return not shard.machine.awaits(markers)

    def _send_again(self) -> None:
        """Send markers that were dropped because their decision was not committed in time."""
        for shard in self.runtime.active():
            unfinished = [(self._markers, markers) for markers in shard.machine.unfinished()]
            if unfinished:
                shard.carry_out(TransactionEffects(replies=[*unfinished]))
