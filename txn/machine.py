"""The transactional ids of one partition of `__transaction_state`.

Operations validate, decide and give Effects (see `effects`); `apply` is called for every record,
live and on load; `verify`, `describe` and `list_transactions` only look.

What is decided is prepared first: the record of PrepareCommit or PrepareAbort says how the
transaction ends, whatever happens from then on.  Once it is committed the outbox is given the
Markers to write; when they are written, `markers_written` completes it.  After a restart `loaded`
gives the outbox what was not completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_transactions import TopicData
from kwire.codecs.messages.describe_transactions import TransactionState as DescribedTransaction
from kwire.codecs.messages.list_transactions import TransactionState as ListedTransaction
from kwire.txn import end_txn, init_producer_id
from kwire.txn.effects import Effects, Markers, ProducerAnswer, Ticket
from kwire.txn.end_txn import End
from kwire.txn.init_producer_id import Initialization
from kwire.txn.limits import TransactionLimits
from kwire.txn.listing import TransactionFilter
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.records import KEY_PREFIX, TransactionRecord, decode
from kwire.txn.timers import AbortTimer, ExpiryTimer, Timer
from kwire.txn.transaction import (
    EPOCH_BUMP,
    IDLE,
    NO_TIMEOUT_MS,
    ONGOING,
    PREPARED,
    Partitions,
    Transaction,
)

EXPIRED_AT_ONCE = 500
"""Tombstones of one timer: some milliseconds of work, then it is the turn of others."""


class TransactionMachine:
    """See the module.

    `outbox` is a ticket of the runtime's kind that is resolved with Markers, many times.  Producer
    ids are taken from `producer_ids`, which whoever calls an operation keeps in stock.
    """

    replaced_keys: ClassVar[tuple[bytes, ...]] = (KEY_PREFIX,)
    """Each record says all of its transactional id."""

    def __init__(
        self, limits: TransactionLimits, producer_ids: ProducerIds, outbox: Ticket
    ) -> None:
        self.limits = limits
        self.transactions: dict[str, Transaction] = {}
        self._producer_ids = producer_ids
        self._outbox = outbox

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: TransactionRecord) -> None:
        """Make the state follow one record."""
        if record.transaction is None:
            self.transactions.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record.transaction

    def settle(self, effects: Effects) -> None:
        """There is no state that is not in records."""

    def loaded(self, now_ms: int) -> Iterable[Effects]:
        """All records have been applied: finish what was decided, begin to look at the clock."""
        yield Effects(replies=[(self._outbox, markers) for markers in self.unfinished()])
        yield Effects(
            timers=[
                (AbortTimer.key, AbortTimer(), self.limits.abort_timed_out_interval_ms),
                (ExpiryTimer.key, ExpiryTimer(), self.limits.remove_expired_interval_ms),
            ]
        )

    def unloaded(self, now_ms: int) -> Iterable[Effects]:
        """The partition is led elsewhere, or deleted: nobody waits for the machine itself."""
        return ()

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> None:
        """A transaction ends as it was decided; markers of partitions that are gone count as done.

        That is the sender's to see (kwire.coordinators.runtime.markers).
        """

    def unfinished(self) -> Iterator[Markers]:
        """The markers of all transactions whose end is decided and not completed."""
        for transactional_id, transaction in self.transactions.items():
            if transaction.state in PREPARED:
                yield _markers(transactional_id, transaction)

    # -- operations of producers

    def init_producer_id(self, request: Initialization, ticket: Ticket, now_ms: int) -> Effects:
        """The reply is a ProducerAnswer."""
        error = request.invalid(self.limits)
        if error is not ErrorCode.NONE:
            return Effects.reply(ticket, ProducerAnswer(error))
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        step = init_producer_id.decide(current, request, self._producer_ids, now_ms)
        if isinstance(step, ErrorCode):
            return Effects.reply(ticket, ProducerAnswer(step))
        effects = Effects([TransactionRecord(transactional_id, step)])
        if step.state not in PREPARED:
            answer = ProducerAnswer(ErrorCode.NONE, step.producer_id, step.producer_epoch)
            effects.replies.append((ticket, answer))
            return effects
        effects.replies = [
            (self._outbox, _markers(transactional_id, step)),
            (ticket, ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)),
        ]
        effects.notes.append(
            f"transaction of {transactional_id} is aborted: its producer began anew"
        )
        return effects

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_transaction_version: int,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        """The reply is an error code, the same for all `partitions`.

        AddOffsetsToTxn adds the group's partition of `__consumer_offsets`.
        """
        current = self.transactions.get(transactional_id)
        if not transactional_id:
            return Effects.reply(ticket, ErrorCode.INVALID_REQUEST)
        if current is not None and current.state in PREPARED:
            # Before all else: with version 2 the producer may have the epoch that comes next.
            return Effects.reply(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        error = _check_producer(current, producer_id, producer_epoch)
        if current is None or error is not ErrorCode.NONE:
            return Effects.reply(ticket, error)
        if current.state is ONGOING and current.has_all(partitions):
            return Effects.reply(ticket, ErrorCode.NONE)
        step = current.with_partitions(partitions, client_transaction_version, now_ms)
        record = TransactionRecord(transactional_id, step)
        return Effects([record], [(ticket, ErrorCode.NONE)])

    def end_txn(self, request: End, ticket: Ticket, now_ms: int) -> Effects:
        """The reply is a ProducerAnswer, with a producer only in transaction version 2."""
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        step = end_txn.decide(current, request, self._producer_ids, now_ms)
        if isinstance(step, ErrorCode):
            done = step is ErrorCode.NONE
            return Effects.reply(ticket, _ended(request, step, current if done else None))
        return Effects(
            [TransactionRecord(transactional_id, step)],
            [
                (self._outbox, _markers(transactional_id, step)),
                (ticket, _ended(request, ErrorCode.NONE, step.completed(now_ms))),
            ],
        )

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Whether partitions are part of the producer's transaction (KIP-890, part 1)."""
        current = self.transactions.get(transactional_id)
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        else:
            error = _check_producer(current, producer_id, producer_epoch)
        if error is ErrorCode.NONE and current is not None and current.state in PREPARED:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        answers = {}
        for topic, indexes in partitions.items():
            mine: frozenset[int] = frozenset()
            if current is not None:
                mine = current.partitions.get(topic, mine)
            for index in indexes:
                missing = error is ErrorCode.NONE and index not in mine
                answers[topic, index] = ErrorCode.TRANSACTION_ABORTABLE if missing else error
        return answers

    # -- the end of a transaction

    def markers_written(self, markers: Markers, now_ms: int) -> Effects:
        """All markers are in their partitions: the transaction is complete.

        Nothing happens where that is so already, as when markers were sent twice, nor for markers
        that are not of this machine's own: after a restart `loaded` has sent others.
        """
        current = self.transactions.get(markers.transactional_id)
        if current is None or current is not markers.prepared:
            return Effects()
        step = current.completed(now_ms)
        return Effects([TransactionRecord(markers.transactional_id, step)])

    # -- looking

    def describe(self, transactional_id: str) -> DescribedTransaction:
        described = DescribedTransaction(transactional_id=transactional_id)
        current = self.transactions.get(transactional_id)
        if not transactional_id:
            described.error_code = ErrorCode.INVALID_REQUEST
        elif current is None:
            described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        else:
            described.transaction_state = current.state.label
            described.transaction_timeout_ms = current.timeout_ms
            described.transaction_start_time_ms = current.start_timestamp_ms
            described.producer_id = current.producer_id
            described.producer_epoch = current.producer_epoch
            described.topics = [
                TopicData(topic, sorted(indexes)) for topic, indexes in current.partitions.items()
            ]
        return described

    def list_transactions(self, wanted: TransactionFilter, now_ms: int) -> list[ListedTransaction]:
        return [
            ListedTransaction(transactional_id, transaction.producer_id, transaction.state.label)
            for transactional_id, transaction in self.transactions.items()
            if wanted.wants(transactional_id, transaction, now_ms)
        ]

    # -- time

    def timer(self, timer: Timer, now_ms: int) -> Effects:
        """A timer that was set has come due."""
        if isinstance(timer, AbortTimer):
            return self._abort_timed_out(timer, now_ms)
        return self._expire(timer, now_ms)

    def _abort_timed_out(self, timer: AbortTimer, now_ms: int) -> Effects:
        """Abort the first of those that took too long, and the others in their turn.

        One at a time: what cannot be appended is tried again with the next look, and keeps no
        other back.
        """
        timed_out = timer.timed_out
        if timed_out is None:
            timed_out = tuple(i for i, t in self.transactions.items() if _is_timed_out(t, now_ms))
        if not timed_out:
            again = (AbortTimer.key, AbortTimer(), self.limits.abort_timed_out_interval_ms)
            return Effects(timers=[again])
        transactional_id, *rest = timed_out
        again = (AbortTimer.key, AbortTimer(tuple(rest)), 0)
        effects = Effects(timers=[again], refused=lambda _error: Effects(timers=[again]))
        current = self.transactions.get(transactional_id)
        if current is None or not _is_timed_out(current, now_ms):
            return effects
        step = init_producer_id.fence(current, self._producer_ids, now_ms)
        if isinstance(step, ErrorCode):
            return effects
        effects.records.append(TransactionRecord(transactional_id, step))
        effects.replies.append((self._outbox, _markers(transactional_id, step)))
        effects.notes.append(
            f"transaction of {transactional_id} is aborted: it took longer than"
            f" {current.timeout_ms} ms"
        )
        return effects

    def _expire(self, timer: ExpiryTimer, now_ms: int) -> Effects:
        """Forget ids that were not used for long, a slice at a time."""
        expired = timer.expired
        if expired is None:
            expired = tuple(i for i, t in self.transactions.items() if self._is_expired(t, now_ms))
        if not expired:
            again = (ExpiryTimer.key, ExpiryTimer(), self.limits.remove_expired_interval_ms)
            return Effects(timers=[again])
        again = (ExpiryTimer.key, ExpiryTimer(expired[EXPIRED_AT_ONCE:]), 0)
        records = [
            TransactionRecord(transactional_id, None)
            for transactional_id in expired[:EXPIRED_AT_ONCE]
            if self._is_expired(self.transactions.get(transactional_id), now_ms)
        ]
        return Effects(
            records,
            timers=[again],
            refused=lambda _error: Effects(timers=[again]),
            atomic=False,
        )

    def _is_expired(self, transaction: Transaction | None, now_ms: int) -> bool:
        if transaction is None or transaction.state not in IDLE:
            return False
        unused_ms = now_ms - transaction.last_update_timestamp_ms
        return unused_ms >= self.limits.transactional_id_expiration_ms


def _check_producer(
    current: Transaction | None, producer_id: int, producer_epoch: int
) -> ErrorCode:
    if current is None or current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _markers(transactional_id: str, prepared: Transaction) -> Markers:
    return Markers(
        transactional_id,
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.commits,
        prepared.partitions,
        prepared.client_transaction_version,
        prepared,
    )


def _ended(request: End, error: ErrorCode, producer: Transaction | None) -> ProducerAnswer:
    if producer is None or request.client_transaction_version < EPOCH_BUMP:
        return ProducerAnswer(error)
    return ProducerAnswer(error, producer.producer_id, producer.producer_epoch)


def _is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    if transaction.state is not ONGOING or transaction.timeout_ms == NO_TIMEOUT_MS:
        return False
    return transaction.start_timestamp_ms + transaction.timeout_ms < now_ms
