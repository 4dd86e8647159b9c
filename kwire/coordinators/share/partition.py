"""A share partition as a machine: which member has acquired which records (KIP-932).

A member acquires records and has them until it acknowledges them or its acquisition lock ends.
Changes take two steps, because they have to be written to the share coordinator:

1. `acknowledge`, `release` and `expire` return a Transition.  Its records are marked as changing,
   so that no member can acquire them, and its `batches` are what the caller has to write.
2. `settle` applies the transition after the write, or undoes it if the write failed.

In a group with a dead-letter topic (KIP-1191), a record that a member rejects or that reaches the
delivery limit takes two transitions.  The first makes it ARCHIVING; its `dead_letters` are what the
caller then writes to the topic.  Afterwards `archive` returns the second.

The start offset rises over records in a terminal state.  Acquisitions are not written: after a
restart the acquired records are available again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import DeliveryState, StateBatch
from kwire.coordinators.share.dead_letters import Cause, DeadLetters
from kwire.coordinators.share.in_flight import (
    NO_LOCK,
    NOBODY,
    UNREAD,
    Delivery,
    RecordRun,
    RecordRuns,
)
from kwire.coordinators.share.state import ShareState

NOT_ACQUIRED = (
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
    "The offset cannot be acknowledged. The offset is not acquired.",
)
NOT_THE_OWNER = (
    "Member is not the owner of batch record",
    "Member is not the owner of offset",
)
"""Apache Kafka's messages: [0] for a batch as acquired, [1] for a part of one (`is_split`)."""


class AcknowledgeType(IntEnum):
    """A member's acknowledgement of a record; the values are those of the protocol."""

    GAP = 0
    """The offset holds no record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member needs more time: its lock starts again."""


class AcknowledgedBatch(NamedTuple):
    """Acknowledgements of offsets `first` to `last`: one type per offset, or one for all."""

    first: int
    last: int
    types: Sequence[int]


class AcquiredBatch(NamedTuple):
    """Records that a member has acquired; `delivery_count` includes this delivery."""

    first: int
    last: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The settings of a share group that limit delivery."""

    max_record_locks: int = 2_000
    max_deliveries: int = 5
    lock_ms: int = 30_000
    may_renew: bool = True
    has_dead_letter_topic: bool = False

    @property
    def suspected_from(self) -> int:
        """Delivery count from which a record may be one that stops every member (poison pill)."""
        return max(2, -(-self.max_deliveries // 2))

    def is_suspect(self, delivery: Delivery) -> bool:
        return delivery.times >= self.suspected_from

    def portion(self, run: RecordRun) -> int:
        """Return the number of records of a suspect run to deliver at once.

        The number is halved with each delivery, and for the last delivery it is 1.  So a record
        that crashes its members does not take its neighbours to the delivery limit.
        """
        times = run.delivery.times
        if times + 1 >= self.max_deliveries:
            return 1
        return max(1, run.acquired_together >> (times - self.suspected_from + 1))


class AcknowledgementRefused(Exception):
    """An acknowledgement is invalid, e.g. of records that the member does not have."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class RunChange(NamedTuple):
    """The next delivery state of offsets `first` to `last`."""

    first: int
    last: int
    delivery: Delivery
    cause: Cause = Cause.EXHAUSTED
    """Why it becomes ARCHIVING, if it does."""


@dataclass(slots=True)
class Transition:
    """Changes that apply once they are written; see the module."""

    changes: list[RunChange] = field(default_factory=list)

    @property
    def batches(self) -> list[StateBatch]:
        """The batches to write to the share coordinator.  A renewed lock is not written."""
        return [
            StateBatch(change.first, change.last, change.delivery.times, change.delivery.state)
            for change in self.changes
            if change.delivery.state is not DeliveryState.ACQUIRED
        ]

    @property
    def dead_letters(self) -> list[DeadLetters]:
        """The records to write to the dead-letter topic once the transition is applied."""
        return [
            DeadLetters(change.first, change.last, change.delivery.times, change.cause)
            for change in self.changes
            if change.delivery.state is DeliveryState.ARCHIVING
        ]


class SharePartition:
    """See the module."""

    def __init__(self, state: ShareState, start: int) -> None:
        """`state` is the share coordinator's.  `start` is the first offset to read: its start
        offset, or the log start offset if that is higher."""
        self.state_epoch = state.state_epoch
        self._runs = RecordRuns(start)
        for batch in sorted(state.batches):
            self._runs.extend(batch.first - 1, UNREAD)  # offsets between stored batches
            delivery = Delivery(DeliveryState(batch.state), batch.delivery_count)
            if batch.last >= self._runs.end:
                self._runs.extend(batch.last, delivery)
        self._runs.drop_terminal()

    # -- offsets

    @property
    def start_offset(self) -> int:
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was ever acquired."""
        return self._runs.end

    @property
    def runs(self) -> Iterator[RecordRun]:
        """The records in flight, as runs in the same state; none of them may be changed."""
        return iter(self._runs)

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that may be acquired: an available record, else the end offset."""
        available = (run.first for run in self._runs if run.is_available)
        return next(available, self._runs.end)

    @property
    def delivery_complete_count(self) -> int:
        """Number of records after the start offset that are in a terminal state."""
        return sum(len(run) for run in self._runs if run.delivery.is_terminal)

    @property
    def next_lock_end_ms(self) -> int | None:
        """When the next acquisition lock ends, or None if no record is acquired."""
        held = (run for run in self._runs if _is_held(run))
        return min((run.delivery.lock_ends_ms for run in held), default=None)

    def may_acquire(self, limits: ShareLimits) -> bool:
        """Whether the limit of in-flight records allows more, or released records are available."""
        runs = self._runs
        return self.next_fetch_offset < runs.end or runs.end - runs.start < limits.max_record_locks

    def raise_start_to(self, log_start_offset: int) -> None:
        """Drop the records before the log start offset: they were deleted from the log."""
        if log_start_offset > self._runs.start:
            self._runs.drop_before(log_start_offset)
            self._runs.drop_terminal()

    # -- acquisition

    def acquire(
        self,
        member_id: str,
        read: Sequence[tuple[int, int]],
        max_records: int,
        batch_size: int,
        now_ms: int,
        limits: ShareLimits,
        *,
        at_most: bool = False,
    ) -> list[AcquiredBatch]:
        """Acquires available records for a member, from the record batches (first, last) in `read`.

        A record batch is acquired as a whole, even beyond `max_records`, unless `at_most` is set.
        The limit of in-flight records applies too; if it is reached, only released records are
        acquired.  Suspect records are delivered alone, in portions (see ShareLimits.portion).
        Returned batches have about `batch_size` records each.
        """
        end = self._runs.end
        room = limits.max_record_locks - (end - self._runs.start)
        left = min(max_records, room if room > 0 else end - self.next_fetch_offset)
        if not read or left <= 0:
            return []
        if room > 0:
            self._runs.extend(_last_to_keep(read, end + left), UNREAD)
        self._cut_at([last + 1 for _, last in read])
        lock_ends_ms = now_ms + limits.lock_ms
        acquired: list[AcquiredBatch] = []
        batch_ends = {last for _, last in read}
        for run in self._runs.within(min(read[0][0], self.next_fetch_offset), read[-1][1]):
            if left <= 0 and (at_most or run.first - 1 in batch_ends):
                break
            if not run.is_available:
                continue
            is_suspect = limits.is_suspect(run.delivery)
            if is_suspect and acquired:
                break  # leave the suspect records to a response of their own
            most = limits.portion(run) if is_suspect else len(run)
            last = run.first + (min(most, left) if at_most else most) - 1
            for piece in self._available_from(run, min(last, read[-1][1])):
                count = piece.delivery.times + 1
                piece.delivery = Delivery(DeliveryState.ACQUIRED, count, member_id, lock_ends_ms)
                left -= len(piece)
                acquired.append(AcquiredBatch(piece.first, piece.last, count))
            if is_suspect:
                break
        if acquired:
            last = acquired[-1].last
            self._runs.drop_unread(min(end for end in batch_ends if end >= last))
        batches = _merge_acquired(acquired, batch_size, end)
        self._set_acquired_together(batches)
        self._runs.drop_terminal()
        return batches

    def _available_from(self, run: RecordRun, last: int) -> list[RecordRun]:
        """Available runs from `run` to `last`, as long as they have its delivery count."""
        runs = self._runs.within(run.first, last)
        return list(
            takewhile(lambda other: other.is_available and other.delivery == run.delivery, runs)
        )

    def _set_acquired_together(self, batches: Iterable[AcquiredBatch]) -> None:
        """Store the batch size in the runs that are delivered for the first time."""
        for batch in batches:
            if batch.delivery_count == 1:
                for run in self._runs.within(batch.first, batch.last):
                    run.acquired_together = batch.last - batch.first + 1

    def _cut_at(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._runs.within(offset, offset - 1)

    # -- acknowledgement, release, expiry

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgedBatch],
        now_ms: int,
        limits: ShareLimits,
    ) -> Transition:
        """Return the transition that a member's acknowledgements make.

        Raises AcknowledgementRefused; then nothing has changed.
        """
        transition = Transition()
        try:
            for batch in batches:
                self._check(batch)
                for first, last, kind in _spans(batch):
                    for run in self._runs.within(max(first, self._runs.start), last):
                        self._check_held(run, member_id)
                        delivery = _after(run.delivery, AcknowledgeType(kind), now_ms, limits)
                        rejected = kind == AcknowledgeType.REJECT
                        cause = Cause.REJECTED if rejected else Cause.EXHAUSTED
                        run.is_changing = True
                        transition.changes.append(RunChange(run.first, run.last, delivery, cause))
        except AcknowledgementRefused:
            self.settle(transition, succeeded=False)
            raise
        return transition

    def _check(self, batch: AcknowledgedBatch) -> None:
        """Raise AcknowledgementRefused if the batch has offsets that nobody acquired yet."""
        if batch.last < self._runs.start:
            return  # all its records are in a terminal state already
        if self._runs.start == self._runs.end:
            raise AcknowledgementRefused(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if batch.first >= self._runs.end:
            raise AcknowledgementRefused(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The first offset in request is past acquired records.",
            )
        if batch.last >= self._runs.end:
            raise AcknowledgementRefused(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )

    def _check_held(self, run: RecordRun, member_id: str) -> None:
        """Raise AcknowledgementRefused unless the member has acquired these records."""
        if not _is_held(run):
            raise AcknowledgementRefused(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED[run.is_split])
        if run.delivery.member_id != member_id:
            raise AcknowledgementRefused(
                ErrorCode.INVALID_RECORD_STATE, NOT_THE_OWNER[run.is_split]
            )

    def release(self, member_id: str, limits: ShareLimits) -> Transition:
        """The transition that makes a member's records available to other members."""
        return self._give_back(
            (run for run in self._runs if run.delivery.member_id == member_id), limits
        )

    def expire(self, now_ms: int, limits: ShareLimits) -> Transition:
        """The transition that makes records available whose acquisition lock has ended."""
        return self._give_back(
            (run for run in self._runs if run.delivery.lock_ends_ms <= now_ms), limits
        )

    def _give_back(self, runs: Iterable[RecordRun], limits: ShareLimits) -> Transition:
        """Return the transition that releases those of the runs that are held.

        They become available again, or archived after their last permitted delivery.
        """
        transition = Transition()
        for run in runs:
            if _is_held(run):
                run.is_changing = True
                delivery = _given_back(run.delivery, limits)
                transition.changes.append(RunChange(run.first, run.last, delivery))
        return transition

    def archive(self, letters: DeadLetters) -> Transition:
        """Return the transition that ends the delivery of records in the dead-letter topic.

        It names all of them, even those before the start offset, which are not in flight any more.
        """
        for run in self._runs.within(letters.first, letters.last):
            run.is_changing = True
        delivery = Delivery(DeliveryState.ARCHIVED, letters.delivery_count)
        return Transition([RunChange(letters.first, letters.last, delivery)])

    def settle(self, transition: Transition, *, succeeded: bool) -> None:
        """Applies a transition that was written, or undoes it if the write failed."""
        for change in transition.changes:
            for run in self._runs.within(change.first, change.last):
                run.is_changing = False
                if succeeded:
                    run.delivery = change.delivery
        self._runs.drop_terminal()


def _last_to_keep(read: Sequence[tuple[int, int]], end: int) -> int:
    """The last offset of the first record batch that reaches `end`, or of the last batch."""
    return next((last for _, last in read if last + 1 >= end), read[-1][1])


def _is_held(run: RecordRun) -> bool:
    return run.delivery.state is DeliveryState.ACQUIRED and not run.is_changing


def _after(delivery: Delivery, kind: AcknowledgeType, now_ms: int, limits: ShareLimits) -> Delivery:
    """Return the state of a record after its acknowledgement.

    Raises AcknowledgementRefused if locks cannot be renewed.
    """
    match kind:
        case AcknowledgeType.ACCEPT:
            return Delivery(DeliveryState.ACKNOWLEDGED, delivery.times)
        case AcknowledgeType.RELEASE:
            return _given_back(delivery, limits)
        case AcknowledgeType.RENEW:
            if not limits.may_renew:
                raise AcknowledgementRefused(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Renewing acquisition locks is not enabled for the group.",
                )
            return delivery._replace(lock_ends_ms=now_ms + limits.lock_ms)
        case AcknowledgeType.REJECT:
            return Delivery(_given_up(limits), delivery.times)
        case AcknowledgeType.GAP:  # There is no record that could be delivered again.
            return Delivery(DeliveryState.ARCHIVED, delivery.times)


def _given_back(delivery: Delivery, limits: ShareLimits) -> Delivery:
    """The state of a released record: AVAILABLE, or given up at the delivery limit."""
    again = delivery.times < limits.max_deliveries
    state = DeliveryState.AVAILABLE if again else _given_up(limits)
    return Delivery(state, delivery.times, NOBODY, NO_LOCK)


def _given_up(limits: ShareLimits) -> DeliveryState:
    """The state of a record that is not delivered again."""
    return DeliveryState.ARCHIVING if limits.has_dead_letter_topic else DeliveryState.ARCHIVED


def _spans(batch: AcknowledgedBatch) -> Iterable[tuple[int, int, int]]:
    """Yield (first, last, type) for each range of offsets with the same acknowledgement."""
    if len(batch.types) == 1:
        yield batch.first, batch.last, batch.types[0]
        return
    first = batch.first
    for offset, kind in enumerate(batch.types, batch.first):
        following = batch.types[offset - batch.first + 1] if offset < batch.last else None
        if kind != following:
            yield first, offset, kind
            first = offset + 1


def _merge_acquired(
    acquired: Iterable[AcquiredBatch], batch_size: int, new_from: int
) -> list[AcquiredBatch]:
    """Merges adjacent batches of the same delivery count, up to `batch_size` records each.

    Records from `new_from` on were never in flight before; they are not merged with older ones.
    """
    merged: list[AcquiredBatch] = []
    for batch in acquired:
        before = merged[-1] if merged else None
        follows = before is not None and before.last + 1 == batch.first != new_from
        if (
            before is not None
            and follows
            and before.delivery_count == batch.delivery_count
            and before.last - before.first + 1 < batch_size
        ):
            merged[-1] = before._replace(last=batch.last)
        else:
            merged.append(batch)
    return merged
