"""One transactional id: its producer, and the state of its transaction.

    Empty ── partitions added ──▶ Ongoing ── EndTxn ──▶ PrepareCommit ── markers ──▶ CompleteCommit
      │                             └──── or abort ──▶ PrepareAbort ── written ──▶ CompleteAbort
      └────── abort (version 2) ────────────▲                                            │
                                            └──────────── abort (version 2) ─────────────┤
    Empty or Ongoing again ◀── InitProducerId or partitions added ───────────────────────┘

A Transaction is immutable: each transition makes a new one.  `last_producer_epoch` is not in the
record (Apache Kafka's record has no field for it), so a transaction read from the log has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
NO_TIMEOUT_MS = 2**31 - 1
"""The transaction may stay open forever: an external system decides its end (KIP-939)."""

MAX_EPOCH = 32_767
LAST_EPOCH_OF_CLIENTS = MAX_EPOCH - 1
"""Clients never get the highest epoch, so that there is always a higher one to fence them with."""

EPOCH_BUMP = 2
"""The transaction version (KIP-890) in which each transaction has an epoch of its own."""

Partitions = Mapping[str, frozenset[int]]
NO_PARTITIONS: Partitions = {}
NO_INDEXES: frozenset[int] = frozenset()


class TransactionState(IntEnum):
    """Values are those of records; `label` is the name in Describe- and ListTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """About to be deleted, in Apache Kafka only; never in a record."""
    PREPARE_EPOCH_FENCE = 7
    """About to be aborted by the coordinator, in Apache Kafka only; never in a record."""

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {state: state.name.title().replace("_", "") for state in TransactionState}

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open: one may begin, and the id may expire."""
PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The end is decided and markers are being written; nothing else is possible until they are."""

MAY_FOLLOW: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
}


class Transaction(NamedTuple):
    """See the module.  Times are ms since the epoch."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_timestamp_ms: int
    partitions: Partitions = NO_PARTITIONS
    start_timestamp_ms: int = NO_TIMESTAMP
    """When the first partition was added; it stays after the end of the transaction."""
    client_transaction_version: int = 0
    """The version that the client (or the coordinator, for an abort) used at the last change."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition, nearly always the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction, if it uses up the epochs of the current id."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The producer's previous epoch: a retry may have it."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_OF_CLIENTS

    @property
    def commits(self) -> bool:
        return self.state is PREPARE_COMMIT

    @property
    def next_producer(self) -> tuple[int, int]:
        """The producer id and epoch that the producer uses once this transaction is complete."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer_id, self.producer_epoch
        return self.next_producer_id, 0

    def has_all(self, partitions: Partitions) -> bool:
        """Return whether all these partitions are in the transaction."""
        included = self.partitions
        return all(
            indexes <= included.get(topic, NO_INDEXES) for topic, indexes in partitions.items()
        )

    # -- transitions

    def initialized(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """Return the state after InitProducerId: Empty, with the next epoch.

        A producer that recovers from an error sends its `expected_epoch` (KIP-360).
        """
        assert not self.is_epoch_exhausted, self
        return self._emptied(timeout_ms, now_ms)._replace(
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self._last_epoch(expected_epoch),
        )

    def initialized_again(self, timeout_ms: int, now_ms: int) -> Transaction:
        """After a retry of a request that succeeded: the same epoch."""
        return self._emptied(timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> Transaction:
        """Return the state after InitProducerId with a new producer id and epoch 0.

        It is for a producer whose epochs are used up.
        """
        return self._emptied(timeout_ms, now_ms)._replace(
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=self._last_epoch(expected_epoch),
        )

    def with_partitions(self, added: Partitions, version: int, now_ms: int) -> Transaction:
        """Return the state with more partitions; the first one begins the transaction."""
        partitions = dict(self.partitions)
        for topic, indexes in added.items():
            partitions[topic] = partitions.get(topic, NO_INDEXES) | indexes
        # All fields in their order, here and below: `_replace` takes three times as long.
        return Transaction(
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            self._next(ONGOING),
            now_ms,
            partitions,
            now_ms if self.state in IDLE else self.start_timestamp_ms,
            version,
            self.producer_id,
            self.next_producer_id,
            self.last_producer_epoch,
        )

    def prepared(
        self, commit: bool, version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """Return the state PrepareCommit or PrepareAbort; the markers are to be written next.

        In transaction version 2 the epoch rises by 1 here, so the markers have the new epoch. An
        abort without an open transaction (version 2) ends one without partitions.
        """
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if version >= EPOCH_BUMP:
            epoch, last = min(epoch + 1, MAX_EPOCH), epoch
        return Transaction(
            self.producer_id,
            epoch,
            self.timeout_ms,
            self._next(PREPARE_COMMIT if commit else PREPARE_ABORT),
            now_ms,
            self.partitions,
            self.start_timestamp_ms if self.state is ONGOING else now_ms,
            version,
            self.producer_id,
            next_producer_id,
            last,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the state after all markers are written: CompleteCommit or CompleteAbort."""
        producer_id, epoch = self.next_producer
        return Transaction(
            producer_id,
            epoch,
            self.timeout_ms,
            self._next(COMPLETE_COMMIT if self.commits else COMPLETE_ABORT),
            now_ms,
            NO_PARTITIONS,
            self.start_timestamp_ms,
            self.client_transaction_version,
            self.producer_id,
            NO_PRODUCER_ID,
            self.last_producer_epoch,
        )

    def _emptied(self, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the transaction in state Empty: no partitions, no start time."""
        return self._replace(
            state=self._next(EMPTY),
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    def _last_epoch(self, expected_epoch: int | None) -> int:
        return NO_PRODUCER_EPOCH if expected_epoch is None else self.producer_epoch

    def _next(self, state: TransactionState) -> TransactionState:
        assert state in MAY_FOLLOW[self.state], f"{self.state.label} to {state.label}"
        return state


def new_transaction(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, with epoch 0 of its producer id."""
    return Transaction(producer_id, 0, timeout_ms, EMPTY, now_ms, previous_producer_id=producer_id)
