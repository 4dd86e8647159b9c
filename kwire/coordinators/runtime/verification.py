"""Verifies with the coordinator that partitions are part of a producer's transaction (KIP-890).

A partition accepts the first batch of a transaction only with a proof that the transaction
coordinator includes the partition in the transaction.  Without that, no marker would ever end the
transaction in this partition.  If the transaction is already open in the partition, no query is
needed.  The query and the client's error depend on the version of the client's request:

    support      Produce  TxnOffsetCommit  query                    error if not part of it
    -----------  -------  ---------------  -----------------------  -----------------------
    VERIFIED     v3-10    v0-3             is the partition part?   INVALID_TXN_STATE
    ABORTABLE    v11      v4               is the partition part?   TRANSACTION_ABORTABLE
    ADDED        v12-     v5-              add the partition        (none: it is added)

While the coordinator still ends the producer's previous transaction, adding is retried every
`add.partitions.to.txn.retry.backoff.ms`, for `add.partitions.to.txn.retry.backoff.max.ms`.

In a cluster the coordinator may be on another broker.  Then only the connection that sent the batch
waits for it (kwire.coordinators.runtime.remote_transactions).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.log import Verification

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.coordinators.runtime.coordinators import Coordinators
    from kwire.coordinators.runtime.transactions import TransactionCoordinator
    from kwire.storage.partitions.partition import Partition

TopicPartition: TypeAlias = tuple[str, int]
"""Topic name and partition number."""
PartitionErrors: TypeAlias = dict[TopicPartition, ErrorCode]
Answer: TypeAlias = PartitionErrors | ErrorCode
"""The error of each partition, or one error for all; NONE if a partition may be written to."""
RequestedPartitions: TypeAlias = Mapping[str, frozenset[int]]

PARTITIONS_AT_ONCE = 500
"""Partitions that a request verifies before other tasks run: some 2 ms, at a measured 4 us each."""

IMPLICIT_TRANSACTION_VERSION = 2
"""Transaction version of clients that add partitions without AddPartitionsToTxn."""


class VerificationSupport(Enum):
    """What the version of a client's request supports; see the module."""

    VERIFIED = "verified"
    ABORTABLE = "abortable"
    ADDED = "added"

    @classmethod
    def of(cls, version: int, abortable_since: int) -> VerificationSupport:
        """Support of a request; `abortable_since` is the one version with ABORTABLE."""
        if version < abortable_since:
            return cls.VERIFIED
        return cls.ABORTABLE if version == abortable_since else cls.ADDED


class ProducerIdentity(NamedTuple):
    """The producer of a request, as the request names it."""

    transactional_id: str
    producer_id: int
    epoch: int


class VerificationResult(NamedTuple):
    """Proofs to append with, and errors of the partitions that may not be written to.

    A partition in neither has the transaction open already, or is not led here.  A partition in
    both is refused.
    """

    proofs: dict[TopicPartition, Verification]
    refused: PartitionErrors


def verify(
    node: Node,
    coordinators: Coordinators,
    producer: ProducerIdentity,
    sequences: Mapping[TopicPartition, int],
    support: VerificationSupport,
) -> VerificationResult | Awaitable[VerificationResult]:
    """Verifies that the producer's transaction includes each partition of `sequences`.

    The values of `sequences` are the base sequences of the batches.  The result is awaitable if
    the coordinator cannot answer at once.
    """
    proofs = _begin(node, producer, sequences.items(), support)
    return _ask(_CoordinatorQuery(node, coordinators.transactions, producer, proofs, support))


async def verify_in_turns(
    node: Node,
    coordinators: Coordinators,
    producer: ProducerIdentity,
    sequences: Mapping[TopicPartition, int],
    support: VerificationSupport,
) -> VerificationResult:
    """As `verify`, for thousands of partitions: other tasks run after each PARTITIONS_AT_ONCE."""
    proofs: dict[TopicPartition, Verification] = {}
    rest = iter(sequences.items())
    while part := list(islice(rest, PARTITIONS_AT_ONCE)):
        proofs |= _begin(node, producer, part, support)
        await trio.lowlevel.checkpoint()
    query = _CoordinatorQuery(node, coordinators.transactions, producer, proofs, support)
    result = _ask(query)
    return result if isinstance(result, VerificationResult) else await result


def _begin(
    node: Node,
    producer: ProducerIdentity,
    sequences: Iterable[tuple[TopicPartition, int]],
    support: VerificationSupport,
) -> dict[TopicPartition, Verification]:
    """Begin the verification of partitions; return those whose coordinator has to be asked."""
    adds = support is VerificationSupport.ADDED
    proofs: dict[TopicPartition, Verification] = {}
    if not adds and not node.config.transaction_partition_verification_enable:
        return proofs
    _, producer_id, epoch = producer
    now_ms, node_id, by_topic = node.now_ms(), node.node_id, node.hosted.by_topic
    for place, sequence in sequences:
        topic, index = place
        partition = by_topic[topic].get(index) if topic in by_topic else None
        if partition is None or partition.leader != node_id:
            continue  # the append refuses it with NOT_LEADER_OR_FOLLOWER
        proof = partition.log.producers.start_verification(
            producer_id, sequence, epoch, supports_epoch_bump=adds, now_ms=now_ms
        )
        if proof is not None:
            proofs[place] = proof
    return proofs


def _ask(query: _CoordinatorQuery) -> VerificationResult | Awaitable[VerificationResult]:
    """Ask the coordinator, if there is a partition to ask about; return the result."""
    proofs, support = query.proofs, query.support
    if not proofs:
        return VerificationResult({}, {})
    answer = query.ask()
    if answer is ErrorCode.NONE:
        return VerificationResult(proofs, {})
    if isinstance(answer, ErrorCode):
        answer = dict.fromkeys(proofs, answer)
    adds = support is VerificationSupport.ADDED
    if isinstance(answer, Promise) or (adds and _is_early(answer)):
        return query.wait_and_retry(answer)
    return _verdict(proofs, answer, support)


def add_at_once(
    node: Node,
    coordinators: Coordinators,
    producer: ProducerIdentity,
    partition: Partition,
    sequence: int,
) -> Verification | None:
    """As `add_together_at_once`, for one partition; returns its proof."""
    proofs = add_together_at_once(
        node, coordinators, producer, partition.topic, ((partition, sequence),)
    )
    return None if proofs is None else proofs.get(partition.index)


def add_together_at_once(
    node: Node,
    coordinators: Coordinators,
    producer: ProducerIdentity,
    topic: str,
    batches: Sequence[tuple[Partition, int]],
) -> dict[int, Verification] | None:
    """Add partitions of `topic` to the producer's transaction, as `verify` with ADDED does.

    `batches` has each partition with the base sequence of its batch.  Returns the proofs to append
    with, by the partitions' indexes.  None if the coordinator is elsewhere, has to wait or refuses:
    `verify` then finds out which, and what this function has done does not change its result.
    """
    transactional_id, producer_id, epoch = producer
    coordinator = coordinators.transactions
    if (
        producer_id < 0
        or not all(partition.is_leader for partition, _ in batches)
        or (node.peers is not None and coordinator.is_elsewhere(transactional_id))
    ):
        return None
    now_ms = node.now_ms()
    proofs = {}
    for partition, sequence in batches:
        proof = partition.log.producers.start_verification(
            producer_id, sequence, epoch, supports_epoch_bump=True, now_ms=now_ms
        )
        if proof is not None:  # else its transaction is open there
            proofs[partition.index] = proof
    answer = coordinator.add_partitions(
        transactional_id,
        producer_id,
        epoch,
        {topic: frozenset(partition.index for partition, _ in batches)},
        IMPLICIT_TRANSACTION_VERSION,
    )
    return proofs if answer is ErrorCode.NONE else None


@dataclass(slots=True)
class _CoordinatorQuery:
    """The query to one producer's transaction coordinator, which may be repeated."""

    node: Node
    coordinator: TransactionCoordinator
    producer: ProducerIdentity
    proofs: dict[TopicPartition, Verification]
    support: VerificationSupport

    def ask(self) -> Answer | Promise[PartitionErrors] | Promise[ErrorCode]:
        """Asks the coordinator once.  Returns its answer, or a promise of it."""
        indexes: dict[str, list[int]] = {}
        for topic, index in self.proofs:
            indexes.setdefault(topic, []).append(index)
        partitions = {topic: frozenset(numbers) for topic, numbers in indexes.items()}
        producer, coordinator = self.producer, self.coordinator
        adds = self.support is VerificationSupport.ADDED
        if self.node.peers is not None and coordinator.is_elsewhere(producer.transactional_id):
            return coordinator.ask_elsewhere(*producer, partitions, adds=adds)
        if not adds:
            return coordinator.verify(*producer, partitions)
        return coordinator.add_partitions(*producer, partitions, IMPLICIT_TRANSACTION_VERSION)

    async def wait_and_retry(
        self, answer: Answer | Promise[PartitionErrors] | Promise[ErrorCode]
    ) -> VerificationResult:
        """Waits for the answer; asks again while the previous transaction is being ended."""
        config, adds = self.node.config, self.support is VerificationSupport.ADDED
        patience_ms = min(
            config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms
        )
        deadline = trio.current_time() + patience_ms / 1000
        while True:
            if isinstance(answer, Promise):
                answer = await answer.wait()
            if isinstance(answer, ErrorCode):
                answer = dict.fromkeys(self.proofs, answer)
            if not (adds and _is_early(answer)) or trio.current_time() >= deadline:
                return _verdict(self.proofs, answer, self.support)
            await trio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            answer = self.ask()


def _is_early(told: PartitionErrors) -> bool:
    """Whether the producer's previous transaction is still being ended."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in told.values()


def _verdict(
    proofs: dict[TopicPartition, Verification], told: PartitionErrors, support: VerificationSupport
) -> VerificationResult:
    """Return the result, with the error of each partition that the coordinator refused."""
    refused = {place: _client_error(error, support) for place, error in told.items() if error}
    return VerificationResult(proofs, refused)


def _client_error(error: ErrorCode, support: VerificationSupport) -> ErrorCode:
    """Return the error that clients get.

    Producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is VerificationSupport.VERIFIED:
        return ErrorCode.INVALID_TXN_STATE
    return error
