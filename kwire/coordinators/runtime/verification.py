"""Whether partitions are part of a producer's transaction, asked before it is written to (KIP-890).

A partition takes the first batch of a transaction only with a proof that the transaction
coordinator knows of it: otherwise no marker would ever end it there.  Where the transaction is open
in the partition already, nobody is asked.  How the coordinator is asked and what the client is told
depends on what the version of its request supports:

    support      Produce  TxnOffsetCommit  asks                  not part of it
    -----------  -------  ---------------  --------------------  ----------------------
    VERIFIED     v3-10    v0-3             whether it is part    INVALID_TXN_STATE
    ABORTABLE    v11      v4               whether it is part    TRANSACTION_ABORTABLE
    ADDED        v12-     v5-              to add the partition  (it is from then on)

While the transaction before is still being ended, adding is tried again every
`add.partitions.to.txn.retry.backoff.ms`, for `add.partitions.to.txn.retry.backoff.max.ms`.

In a cluster the coordinator may be on another broker; only the connection that brought the batch
waits for it (kwire.coordinators.runtime.remote_transactions).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.log import Verification

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.coordinators.runtime.coordinators import Coordinators
    from kwire.coordinators.runtime.transactions import TransactionCoordinator

Place: TypeAlias = tuple[str, int]
"""A partition by its topic and number."""
Told: TypeAlias = dict[Place, ErrorCode]
Asked: TypeAlias = Mapping[str, frozenset[int]]

IMPLICIT_TRANSACTION_VERSION = 2
"""The client's transaction version where partitions are added without AddPartitionsToTxn."""


class Support(Enum):
    """See the module."""

    VERIFIED = "verified"
    ABORTABLE = "abortable"
    ADDED = "added"

    @classmethod
    def of(cls, version: int, abortable_since: int) -> Support:
        """Of an API whose next version after `abortable_since` adds partitions."""
        if version < abortable_since:
            return cls.VERIFIED
        return cls.ABORTABLE if version == abortable_since else cls.ADDED


class Producer(NamedTuple):
    """Who writes, as its request says."""

    transactional_id: str
    producer_id: int
    epoch: int


class Verdict(NamedTuple):
    """What partitions are told that may not be written to, and proofs to append to others with.

    Partitions of neither have the transaction open, or are not led here.  A proof of one that is
    refused counts for nothing.
    """

    proofs: dict[Place, Verification]
    refused: Told


def verify(
    node: Node,
    coordinators: Coordinators,
    producer: Producer,
    sequences: Mapping[Place, int],
    support: Support,
) -> Verdict | Awaitable[Verdict]:
    """`sequences` has the base sequence of what is to be written to each partition."""
    adds = support is Support.ADDED
    proofs: dict[Place, Verification] = {}
    if adds or node.config.transaction_partition_verification_enable:
        _, producer_id, epoch = producer
        now_ms = node.now_ms()
        for place, sequence in sequences.items():
            partition = node.hosted.get(*place)
            if partition is None or not partition.is_leader:
                continue  # the append says so
            proof = partition.log.producers.start_verification(
                producer_id, sequence, epoch, supports_epoch_bump=adds, now_ms=now_ms
            )
            if proof is not None:
                proofs[place] = proof
    if not proofs:
        return Verdict({}, {})
    asking = _Asking(node, coordinators.transactions, producer, proofs, support)
    answer = asking.ask()
    if isinstance(answer, Promise) or (adds and _is_early(answer)):
        return asking.insist(answer)
    return _verdict(proofs, answer, support)


@dataclass(slots=True)
class _Asking:
    """What one producer's transaction coordinator is asked, once or several times."""

    node: Node
    coordinator: TransactionCoordinator
    producer: Producer
    proofs: dict[Place, Verification]
    support: Support

    def ask(self) -> Told | Promise[Told] | Promise[ErrorCode]:
        """What the coordinator says of each partition, or will say of each or of all."""
        indexes: dict[str, list[int]] = {}
        for topic, index in self.proofs:
            indexes.setdefault(topic, []).append(index)
        asked = {topic: frozenset(those) for topic, those in indexes.items()}
        producer, coordinator = self.producer, self.coordinator
        adds = self.support is Support.ADDED
        if self.node.peers is not None and coordinator.is_elsewhere(producer.transactional_id):
            return coordinator.ask_elsewhere(*producer, asked, adds=adds)
        if not adds:
            return coordinator.verify(*producer, asked)
        answer = coordinator.add_partitions(*producer, asked, IMPLICIT_TRANSACTION_VERSION)
        return answer if isinstance(answer, Promise) else dict.fromkeys(self.proofs, answer)

    async def insist(self, answer: Told | Promise[Told] | Promise[ErrorCode]) -> Verdict:
        """Wait for the answer, and ask again as long as it is one that passes."""
        config, adds = self.node.config, self.support is Support.ADDED
        patience_ms = min(
            config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms
        )
        deadline = trio.current_time() + patience_ms / 1000
        while True:
            if isinstance(answer, Promise):
                said = await answer.wait()
                answer = said if isinstance(said, dict) else dict.fromkeys(self.proofs, said)
            if not (adds and _is_early(answer)) or trio.current_time() >= deadline:
                return _verdict(self.proofs, answer, self.support)
            await trio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            answer = self.ask()


def _is_early(told: Told) -> bool:
    """Whether the producer's transaction before is still being ended."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in told.values()


def _verdict(proofs: dict[Place, Verification], told: Told, support: Support) -> Verdict:
    refused = {place: _client_error(error, support) for place, error in told.items() if error}
    return Verdict(proofs, refused)


def _client_error(error: ErrorCode, support: Support) -> ErrorCode:
    """Clients know of a producer that is fenced where it writes by its epoch alone."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is Support.VERIFIED:
        return ErrorCode.INVALID_TXN_STATE
    return error
