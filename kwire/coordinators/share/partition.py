"""One partition as one share group reads it: who has which records now (KIP-932).

Records are acquired by a member, who has them until it says what became of them or its lock ends.
What is done with for good is written to the share coordinator, and a record is given to the next
member only when that is settled: `acknowledge`, `release` and `expire` give a Transition, whose
`batches` are to be written, and `settle` says what came of that.

The start offset moves on behind records that are done with.  What is acquired is not written: after
a restart it is available again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import DeliveryState, StateBatch
from kwire.coordinators.share.in_flight import NO_LOCK, NOBODY, UNREAD, Delivery, Run, Runs
from kwire.coordinators.share.state import ShareState

NOT_ACQUIRED = (
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
    "The offset cannot be acknowledged. The offset is not acquired.",
)
NOT_THE_OWNER = (
    "Member is not the owner of batch record",
    "Member is not the owner of offset",
)
"""Apache Kafka's words, of what was acquired together, and of what has gone apart since."""


class AcknowledgeType(IntEnum):
    """What a member says of a record; the numbers are those of the protocol."""

    GAP = 0
    """There is none at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """It needs more time."""


class AcknowledgedBatch(NamedTuple):
    """`types`: one of each offset from `first` to `last`, or one of all of them."""

    first: int
    last: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Records that a member has now; `delivery_count` says the how manieth delivery it is."""

    first: int
    last: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The settings of a share group."""

    max_record_locks: int = 2_000
    max_deliveries: int = 5
    lock_ms: int = 30_000
    may_renew: bool = True

    @property
    def suspected_from(self) -> int:
        """After how many deliveries a record may be one that nobody can work on."""
        return max(2, -(-self.max_deliveries // 2))

    def is_suspect(self, delivery: Delivery) -> bool:
        return delivery.times >= self.suspected_from

    def portion(self, run: Run) -> int:
        """How many records of a suspected run are delivered at once.

        It is halved with each delivery, and the last delivery of a record is one of its own: so
        one record that ends whoever reads it does not take its neighbours to the limit with it.
        """
        times = run.delivery.times
        if times + 1 >= self.max_deliveries:
            return 1
        return max(1, run.together >> (times - self.suspected_from + 1))


class Refused(Exception):
    """What a member says of records cannot be so."""

    def __init__(self, error: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error = error


class Change(NamedTuple):
    """What records are to become, once that is written."""

    first: int
    last: int
    delivery: Delivery


@dataclass(slots=True)
class Transition:
    """What a member has said of records, or what its silence comes to."""

    changes: list[Change] = field(default_factory=list)

    @property
    def batches(self) -> list[StateBatch]:
        """What is to be written of it: a lock that is renewed is not."""
        return [
            StateBatch(change.first, change.last, change.delivery.times, change.delivery.state)
            for change in self.changes
            if change.delivery.state is not DeliveryState.ACQUIRED
        ]


class SharePartition:
    """See the module."""

    def __init__(self, state: ShareState, start: int) -> None:
        """As the share coordinator knows it; `start`: where it begins, or the log does if later."""
        self.state_epoch = state.state_epoch
        self._runs = Runs(start)
        for batch in sorted(state.batches):
            self._runs.extend(batch.first - 1, UNREAD)
            known = Delivery(DeliveryState(batch.state), batch.delivery_count)
            if batch.last >= self._runs.end:
                self._runs.extend(batch.last, known)
        self._runs.forget_done()

    # -- where it is

    @property
    def start_offset(self) -> int:
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """Behind the last record that was acquired."""
        return self._runs.end

    @property
    def next_fetch_offset(self) -> int:
        """Where there is something to acquire, as far as is known."""
        available = (run.first for run in self._runs if run.is_available)
        return next(available, self._runs.end)

    @property
    def delivery_complete_count(self) -> int:
        """How many records from the start offset on need no delivery any longer."""
        return sum(len(run) for run in self._runs if run.delivery.is_terminal)

    @property
    def next_lock_end_ms(self) -> int | None:
        """When the first lock ends."""
        held = (run for run in self._runs if _is_held(run))
        return min((run.delivery.lock_ends_ms for run in held), default=None)

    def may_acquire(self, limits: ShareLimits) -> bool:
        """Whether there is room for more, or something was given back."""
        runs = self._runs
        return self.next_fetch_offset < runs.end or runs.end - runs.start < limits.max_record_locks

    def begin_at(self, log_start_offset: int) -> None:
        """What is before it is not there any longer."""
        if log_start_offset > self._runs.start:
            self._runs.begin_at(log_start_offset)
            self._runs.forget_done()

    # -- a member reads

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
    ) -> list[Acquired]:
        """Give a member what is available of the record batches (first, last) that were read.

        A batch is given as a whole, even if that is more than `max_records`, unless it is to be
        `at_most` that many; nor is more given than there is room for, and where there is none what
        was given back alone.  `batch_size`: how many records are told of as one, about.  What was
        delivered often is delivered apart, in portions.
        """
        end = self._runs.end
        room = limits.max_record_locks - (end - self._runs.start)
        left = min(max_records, room if room > 0 else end - self.next_fetch_offset)
        if not read or left <= 0:
            return []
        if room > 0:
            self._runs.extend(_last_to_keep(read, end + left), UNREAD)
        self._cut_at([last + 1 for _, last in read])
        delivery_until = now_ms + limits.lock_ms
        acquired: list[Acquired] = []
        batch_ends = {last for _, last in read}
        for run in self._runs.within(min(read[0][0], self.next_fetch_offset), read[-1][1]):
            if left <= 0 and (at_most or run.first - 1 in batch_ends):
                break
            if not run.is_available:
                continue
            is_suspect = limits.is_suspect(run.delivery)
            if is_suspect and acquired:
                break
            most = limits.portion(run) if is_suspect else len(run)
            last = run.first + (min(most, left) if at_most else most) - 1
            for piece in self._alike(run, min(last, read[-1][1])):
                count = piece.delivery.times + 1
                piece.delivery = Delivery(DeliveryState.ACQUIRED, count, member_id, delivery_until)
                left -= len(piece)
                acquired.append(Acquired(piece.first, piece.last, count))
            if is_suspect:
                break
        if acquired:
            last = acquired[-1].last
            self._runs.forget_unread(min(end for end in batch_ends if end >= last))
        told = _told(acquired, batch_size, end)
        self._note_together(told)
        self._runs.forget_done()
        return told

    def _alike(self, run: Run, last: int) -> list[Run]:
        """What is available from a run on, delivered as often as it."""
        runs = self._runs.within(run.first, last)
        return list(
            takewhile(lambda each: each.is_available and each.delivery == run.delivery, runs)
        )

    def _note_together(self, told: Iterable[Acquired]) -> None:
        """Of what is delivered for the first time."""
        for each in told:
            if each.delivery_count == 1:
                for run in self._runs.within(each.first, each.last):
                    run.together = each.last - each.first + 1

    def _cut_at(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._runs.within(offset, offset - 1)

    # -- what becomes of records

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgedBatch],
        now_ms: int,
        limits: ShareLimits,
    ) -> Transition:
        """What a member says of records that it has.  Raises Refused, and nothing has happened."""
        transition = Transition()
        try:
            for batch in batches:
                self._check(batch)
                for first, last, kind in _spans(batch):
                    for run in self._runs.within(max(first, self._runs.start), last):
                        self._check_held(run, member_id)
                        delivery = _after(run.delivery, AcknowledgeType(kind), now_ms, limits)
                        run.is_changing = True
                        transition.changes.append(Change(run.first, run.last, delivery))
        except Refused:
            self.settle(transition, well=False)
            raise
        return transition

    def _check(self, batch: AcknowledgedBatch) -> None:
        if batch.last < self._runs.start:
            return  # it was done with meanwhile
        if batch.first >= self._runs.end:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The first offset in request is past acquired records.",
            )
        if batch.last >= self._runs.end:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )

    def _check_held(self, run: Run, member_id: str) -> None:
        if not _is_held(run):
            raise Refused(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED[run.is_part])
        if run.delivery.member_id != member_id:
            raise Refused(ErrorCode.INVALID_RECORD_STATE, NOT_THE_OWNER[run.is_part])

    def release(self, member_id: str, limits: ShareLimits) -> Transition:
        """A member is gone: what it has is for others."""
        return self._give_back(
            (run for run in self._runs if run.delivery.member_id == member_id), limits
        )

    def expire(self, now_ms: int, limits: ShareLimits) -> Transition:
        """What a member has said nothing of in time is for others."""
        return self._give_back(
            (run for run in self._runs if run.delivery.lock_ends_ms <= now_ms), limits
        )

    def _give_back(self, runs: Iterable[Run], limits: ShareLimits) -> Transition:
        transition = Transition()
        for run in runs:
            if _is_held(run):
                run.is_changing = True
                delivery = _given_back(run.delivery, limits)
                transition.changes.append(Change(run.first, run.last, delivery))
        return transition

    def settle(self, transition: Transition, *, well: bool) -> None:
        """What was to be written has been, or could not be: then all is as it was."""
        for change in transition.changes:
            for run in self._runs.within(change.first, change.last):
                run.is_changing = False
                if well:
                    run.delivery = change.delivery
        self._runs.forget_done()


def _last_to_keep(read: Sequence[tuple[int, int]], end: int) -> int:
    """Whole batches, until all before `end` are kept."""
    return next((last for _, last in read if last + 1 >= end), read[-1][1])


def _is_held(run: Run) -> bool:
    return run.delivery.state is DeliveryState.ACQUIRED and not run.is_changing


def _after(delivery: Delivery, kind: AcknowledgeType, now_ms: int, limits: ShareLimits) -> Delivery:
    match kind:
        case AcknowledgeType.ACCEPT:
            return Delivery(DeliveryState.ACKNOWLEDGED, delivery.times)
        case AcknowledgeType.RELEASE:
            return _given_back(delivery, limits)
        case AcknowledgeType.RENEW:
            if not limits.may_renew:
                raise Refused(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Renewing acquisition locks is not enabled for the group.",
                )
            return delivery._replace(lock_ends_ms=now_ms + limits.lock_ms)
        case _:
            return Delivery(DeliveryState.ARCHIVED, delivery.times)


def _given_back(delivery: Delivery, limits: ShareLimits) -> Delivery:
    """Available again, or archived once it was delivered often enough."""
    again = delivery.times < limits.max_deliveries
    state = DeliveryState.AVAILABLE if again else DeliveryState.ARCHIVED
    return Delivery(state, delivery.times, NOBODY, NO_LOCK)


def _spans(batch: AcknowledgedBatch) -> Iterable[tuple[int, int, int]]:
    """Neighbouring offsets of which the same is said."""
    if len(batch.types) == 1:
        yield batch.first, batch.last, batch.types[0]
        return
    first = batch.first
    for offset, kind in enumerate(batch.types, batch.first):
        following = batch.types[offset - batch.first + 1] if offset < batch.last else None
        if kind != following:
            yield first, offset, kind
            first = offset + 1


def _told(acquired: Iterable[Acquired], batch_size: int, new_from: int) -> list[Acquired]:
    """Neighbours of one delivery count as one, until that has `batch_size` records.

    What was read just now, from `new_from` on, is not told of together with what was kept.
    """
    told: list[Acquired] = []
    for each in acquired:
        before = told[-1] if told else None
        follows = before is not None and before.last + 1 == each.first != new_from
        if (
            before is not None
            and follows
            and before.delivery_count == each.delivery_count
            and before.last - before.first + 1 < batch_size
        ):
            told[-1] = before._replace(last=each.last)
        else:
            told.append(each)
    return told
