"""One transactional id: who its producer is, and the transaction it is in.

    Empty ── partitions added ──▶ Ongoing ── EndTxn ──▶ PrepareCommit ── markers ──▶ CompleteCommit
      │                             └──── or abort ──▶ PrepareAbort ── written ──▶ CompleteAbort
      └────── abort (version 2) ────────────▲                                            │
                                            └──────────── abort (version 2) ─────────────┤
    Empty or Ongoing again ◀── InitProducerId or partitions added ───────────────────────┘

A Transaction never changes: each step makes a new one.  `last_producer_epoch` is what a record
cannot say (Apache Kafka's has no field for it); a transaction read from the log has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
NO_TIMEOUT_MS = 2**31 - 1
"""The transaction may stay open for ever: its end is decided elsewhere (KIP-939)."""

MAX_EPOCH = 32_767
LAST_EPOCH_OF_CLIENTS = MAX_EPOCH - 1
"""A client is never given the highest epoch, so that it can always be fenced by one more."""

EPOCH_BUMP = 2
"""The transaction version (KIP-890) since which each transaction has an epoch of its own."""

Partitions = Mapping[str, frozenset[int]]
NO_PARTITIONS: Partitions = {}
NO_INDEXES: frozenset[int] = frozenset()


class TransactionState(IntEnum):
    """The value is what records say, `label` what Describe- and ListTransactions say."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """About to be forgotten: never in a record, never seen here."""
    PREPARE_EPOCH_FENCE = 7
    """About to be aborted by the coordinator: same."""

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
"""No transaction is going on: another may begin, and the id may expire."""
PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""Decided: markers are being written, and nothing else can happen until they are."""

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
    """When the first partition was added; kept when the transaction has ended."""
    client_transaction_version: int = 0
    """How the client (or the coordinator, aborting) spoke when it last began or ended one."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last step, nearly always the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id from the end on of a transaction that used up the epochs of this one."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that its producer had before the one it was given last: a retry may name it."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_OF_CLIENTS

    @property
    def commits(self) -> bool:
        return self.state is PREPARE_COMMIT

    def has_all(self, partitions: Partitions) -> bool:
        mine = self.partitions
        return all(indexes <= mine.get(topic, NO_INDEXES) for topic, indexes in partitions.items())

    # -- steps

    def initialized(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """The producer has (re)started: the next epoch is its own.

        `expected_epoch` is given by a producer that goes on after an error (KIP-360).
        """
        assert not self.is_epoch_exhausted, self
        return self._emptied(timeout_ms, now_ms)._replace(
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self._last_epoch(expected_epoch),
        )

    def initialized_again(self, timeout_ms: int, now_ms: int) -> Transaction:
        """A retry of what succeeded: the same epoch."""
        return self._emptied(timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> Transaction:
        """Its epochs are used up: it begins anew under another producer id."""
        return self._emptied(timeout_ms, now_ms)._replace(
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=self._last_epoch(expected_epoch),
        )

    def with_partitions(self, added: Partitions, version: int, now_ms: int) -> Transaction:
        """Partitions are part of the transaction, which begins with the first of them."""
        partitions = dict(self.partitions)
        for topic, indexes in added.items():
            partitions[topic] = partitions.get(topic, NO_INDEXES) | indexes
        return self._replace(
            state=self._next(ONGOING),
            previous_producer_id=self.producer_id,
            partitions=partitions,
            start_timestamp_ms=now_ms if self.state in IDLE else self.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=version,
        )

    def prepared(
        self, commit: bool, version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """It is decided how the transaction ends; in version 2 its markers end the epoch too.

        Whoever aborts without having begun (version 2) begins and ends one without partitions.
        """
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if version >= EPOCH_BUMP:
            epoch, last = min(epoch + 1, MAX_EPOCH), epoch
        return self._replace(
            state=self._next(PREPARE_COMMIT if commit else PREPARE_ABORT),
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            start_timestamp_ms=self.start_timestamp_ms if self.state is ONGOING else now_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._replace(
            state=self._next(COMPLETE_COMMIT if self.commits else COMPLETE_ABORT),
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            partitions=NO_PARTITIONS,
            last_update_timestamp_ms=now_ms,
        )

    def _emptied(self, timeout_ms: int, now_ms: int) -> Transaction:
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


def born(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id that was never seen, with its producer's first epoch."""
    return Transaction(producer_id, 0, timeout_ms, EMPTY, now_ms, previous_producer_id=producer_id)
