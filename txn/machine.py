"""The transaction machine: the transactional ids of one partition of `__transaction_state`.

Operations validate and decide a request, and return TransactionEffects.  `apply` gets every record,
live and on load.  `verify`, `describe` and `list_transactions` only read.

The end of a transaction takes these steps:

1. The record of PrepareCommit or PrepareAbort decides how the transaction ends.
2. Once the record is committed, the outbox gets the Markers to write.
3. When all markers are written, `markers_written` completes the transaction.

After a restart, `loaded` gives the outbox the markers of all transactions that are not complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_transactions import TopicData
from kwire.codecs.messages.describe_transactions import TransactionState as DescribedTransaction
from kwire.codecs.messages.list_transactions import TransactionState as ListedTransaction
from kwire.txn import end_txn, init_producer_id
from kwire.txn.effects import Markers, ProducerAnswer, Ticket, TransactionEffects
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
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

CHECKED_AT_ONCE = 250
"""Transactional ids that one firing of a timer looks at: at most 2 ms, if all have expired."""


class TransactionMachine:
    """See the module.

    `outbox` is a ticket that is resolved with Markers, once per transaction.  Producer ids are
    taken from `producer_ids`; the caller of an operation keeps them in stock.
    """

    replaced_keys: ClassVar[tuple[bytes, ...]] = (KEY_PREFIX,)
    """All records: each has the whole state of its transactional id."""

    def __init__(
        self, limits: TransactionLimits, producer_ids: ProducerIds, outbox: Ticket
    ) -> None:
        """Begin without transactional ids; `outbox` takes the markers that are to be written."""
        self.limits = limits
        self.transactions: dict[str, Transaction] = {}
        self._producer_ids = producer_ids
        self._outbox = outbox

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: TransactionRecord) -> None:
        """Change the state by one record."""
        if record.transaction is None:
            self.transactions.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record.transaction

    def install_soft_state(self, effects: TransactionEffects) -> None:
        """All state is in records."""

    def loaded(self, now_ms: int) -> Iterable[TransactionEffects]:
        """Effects after the last record was applied: send unfinished markers, start the timers."""
        yield TransactionEffects(replies=[(self._outbox, markers) for markers in self.unfinished()])
        yield TransactionEffects(
            timers=[
                (AbortTimer.key, AbortTimer(), self.limits.abort_timed_out_interval_ms),
                (ExpiryTimer.key, ExpiryTimer(), self.limits.remove_expired_interval_ms),
            ]
        )

    def unloaded(self, now_ms: int) -> Iterable[TransactionEffects]:
        """No request waits in this machine."""
        return ()

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> None:
        """Nothing to do: the sender of markers skips partitions that no longer exist.

        See kwire.coordinators.runtime.markers.
        """

    def unfinished(self) -> Iterator[Markers]:
        """The markers of all transactions whose end is decided but not complete."""
        for transactional_id, transaction in self.transactions.items():
            if transaction.state in PREPARED:
                yield _markers(transactional_id, transaction)

    # -- operations of producers

    def init_producer_id(
        self, request: ProducerInitialization, ticket: Ticket, now_ms: int
    ) -> TransactionEffects:
        """Decide InitProducerId.  The reply is a ProducerAnswer."""
        error = request.invalid(self.limits)
        if error is not ErrorCode.NONE:
            return TransactionEffects.reply(ticket, ProducerAnswer(error))
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        step = init_producer_id.decide(current, request, self._producer_ids, now_ms)
        if isinstance(step, ErrorCode):
            return TransactionEffects.reply(ticket, ProducerAnswer(step))
        effects = TransactionEffects([TransactionRecord(transactional_id, step)])
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
    ) -> TransactionEffects:
        """Decide AddPartitionsToTxn.  The reply is one error code for all `partitions`.

        AddOffsetsToTxn adds the group's partition of `__consumer_offsets`.
        """
        current = self.transactions.get(transactional_id)
        if not transactional_id:
            return TransactionEffects.reply(ticket, ErrorCode.INVALID_REQUEST)
        if current is not None and current.state in PREPARED:
            # Check this first: with version 2 the producer may have the next epoch already.
            return TransactionEffects.reply(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        error = _check_producer(current, producer_id, producer_epoch)
        if current is None or error is not ErrorCode.NONE:
            return TransactionEffects.reply(ticket, error)
        if current.state is ONGOING and current.has_all(partitions):
            return TransactionEffects.reply(ticket, ErrorCode.NONE)
        step = current.with_partitions(partitions, client_transaction_version, now_ms)
        record = TransactionRecord(transactional_id, step)
        return TransactionEffects([record], [(ticket, ErrorCode.NONE)])

    def end_txn(self, request: EndTransaction, ticket: Ticket, now_ms: int) -> TransactionEffects:
        """Decide EndTxn.  The reply is a ProducerAnswer; version 2 returns the new epoch."""
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        step = end_txn.decide(current, request, self._producer_ids, now_ms)
        if isinstance(step, ErrorCode):
            ended = current if step is ErrorCode.NONE else None
            producer = None if ended is None else ended.next_producer
            return TransactionEffects.reply(ticket, _end_txn_answer(request, step, producer))
        return TransactionEffects(
            [TransactionRecord(transactional_id, step)],
            [
                (self._outbox, _markers(transactional_id, step)),
                (ticket, _end_txn_answer(request, ErrorCode.NONE, step.next_producer)),
            ],
        )

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Return whether partitions are part of the producer's transaction (KIP-890, part 1)."""
        current = self.transactions.get(transactional_id)
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        else:
            error = _check_producer(current, producer_id, producer_epoch)
        if error is ErrorCode.NONE and current is not None and current.state in PREPARED:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        answers = {}
        for topic, indexes in partitions.items():
            included: frozenset[int] = frozenset()
            if current is not None:
                included = current.partitions.get(topic, included)
            for index in indexes:
                missing = error is ErrorCode.NONE and index not in included
                answers[topic, index] = ErrorCode.TRANSACTION_ABORTABLE if missing else error
        return answers

    # -- the end of a transaction

    def markers_written(self, markers: Markers, now_ms: int) -> TransactionEffects:
        """Complete a transaction whose markers are all written.

        No effects if it is complete already (its markers were sent twice), or if the markers are
        those of an earlier machine: after a restart `loaded` has sent new ones.
        """
        current = self.transactions.get(markers.transactional_id)
        if current is None or not self.awaits(markers):
            return TransactionEffects()
        record = TransactionRecord(markers.transactional_id, current.completed(now_ms))
        # Without the record, `loaded` sends the markers again.  A partition that has them takes
        # them a second time, which changes nothing, and the completion follows.
        return TransactionEffects([record], deferrable=True)

    def awaits(self, markers: Markers) -> bool:
        """Whether the transaction of these markers waits for them to be written."""
        current = self.transactions.get(markers.transactional_id)
        return current is not None and current is markers.prepared

    # -- queries

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return the answer of DescribeTransactions for one transactional id.

        Errors are in its error code: INVALID_REQUEST for an empty id, TRANSACTIONAL_ID_NOT_FOUND.
        """
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

    def timer_fired(self, timer: Timer, now_ms: int) -> TransactionEffects:
        """Effects of a timer that fires."""
        if isinstance(timer, AbortTimer):
            return self._abort_timed_out(timer, now_ms)
        return self._expire(timer, now_ms)

    def _abort_timed_out(self, timer: AbortTimer, now_ms: int) -> TransactionEffects:
        """Abort the first timed-out transaction, and set the timer at once for the others.

        One at a time, so that an abort that cannot be appended does not block the others.  It is
        repeated with the next check.
        """
        unchecked = timer.unchecked
        if unchecked is None:
            unchecked = tuple(self.transactions)
            if len(unchecked) > CHECKED_AT_ONCE:  # as in `_expire`
                return TransactionEffects(timers=[(AbortTimer.key, AbortTimer(unchecked), 0)])
        for number, transactional_id in enumerate(unchecked[:CHECKED_AT_ONCE], 1):
            current = self.transactions.get(transactional_id)
            if current is not None and _is_timed_out(current, now_ms):
                rest = AbortTimer(unchecked[number:])
                return self._abort(transactional_id, current, rest, now_ms)
        rest = AbortTimer(unchecked[CHECKED_AT_ONCE:])
        if rest.unchecked:
            return TransactionEffects(timers=[(AbortTimer.key, rest, 0)])
        again = (AbortTimer.key, AbortTimer(), self.limits.abort_timed_out_interval_ms)
        return TransactionEffects(timers=[again])

    def _abort(
        self, transactional_id: str, current: Transaction, rest: AbortTimer, now_ms: int
    ) -> TransactionEffects:
        """Abort a transaction that has timed out; the timer goes on with `rest`."""
        again = (AbortTimer.key, rest, 0)
        effects = TransactionEffects(
            timers=[again], refused=lambda _error: TransactionEffects(timers=[again])
        )
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

    def _expire(self, timer: ExpiryTimer, now_ms: int) -> TransactionEffects:
        """Delete transactional ids that have expired, in slices.

        The timers of all partitions fire at about the same time, before requests are served.  What
        they set for this moment fires in turn with requests (kwire.broker.timers).
        """
        unchecked = tuple(self.transactions) if timer.unchecked is None else timer.unchecked
        if not unchecked:
            again = (ExpiryTimer.key, ExpiryTimer(), self.limits.remove_expired_interval_ms)
            return TransactionEffects(timers=[again])
        if timer.unchecked is None:
            return TransactionEffects(timers=[(ExpiryTimer.key, ExpiryTimer(unchecked), 0)])
        again = (ExpiryTimer.key, ExpiryTimer(unchecked[CHECKED_AT_ONCE:]), 0)
        records = [
            TransactionRecord(transactional_id, None)
            for transactional_id in unchecked[:CHECKED_AT_ONCE]
            if self._is_expired(self.transactions.get(transactional_id), now_ms)
        ]
        return TransactionEffects(
            records,
            timers=[again],
            refused=lambda _error: TransactionEffects(timers=[again]),
            atomic=False,
        )

    def _is_expired(self, transaction: Transaction | None, now_ms: int) -> bool:
        """Return whether the transactional id is idle and unused for too long.

        The limit is `transactional.id.expiration.ms`.
        """
        if transaction is None or transaction.state not in IDLE:
            return False
        unused_ms = now_ms - transaction.last_update_timestamp_ms
        return unused_ms >= self.limits.transactional_id_expiration_ms


def _check_producer(
    current: Transaction | None, producer_id: int, producer_epoch: int
) -> ErrorCode:
    """Return NONE if the request has the current producer id and epoch, else the error."""
    if current is None or current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _markers(transactional_id: str, prepared: Transaction) -> Markers:
    """Return the markers to write for a prepared transaction: commit or abort, and where."""
    return Markers(
        transactional_id,
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.commits,
        prepared.partitions,
        prepared.client_transaction_version,
        prepared,
    )


def _end_txn_answer(
    request: EndTransaction, error: ErrorCode, producer: tuple[int, int] | None
) -> ProducerAnswer:
    """Return the answer to EndTxn; only version 2 clients get the producer id and epoch."""
    if producer is None or request.client_transaction_version < EPOCH_BUMP:
        return ProducerAnswer(error)
    return ProducerAnswer(error, *producer)


def _is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    if transaction.state is not ONGOING or transaction.timeout_ms == NO_TIMEOUT_MS:
        return False
    return transaction.start_timestamp_ms + transaction.timeout_ms < now_ms
