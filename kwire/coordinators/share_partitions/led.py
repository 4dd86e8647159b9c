"""One share partition whose partition this broker leads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.broker.timers import Timer, Timers
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.batches import NO_OFFSET, TERMINAL, DeliveryState
from kwire.coordinators.share.dead_letters import DeadLetters, resumed
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.partition import AcknowledgedBatch, SharePartition, Transition
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from kwire.coordinators.share_partitions.limits import ShareDeliverySettings
from kwire.log import offset_for_timestamp
from kwire.storage.partitions.partition import FetchWaiter, Partition

if TYPE_CHECKING:
    from kwire.coordinators.runtime.share import Reply
    from kwire.coordinators.share_partitions.dead_letter_queue import DeadLetterQueue
    from kwire.coordinators.share_partitions.states import ShareStates

RETRY_MS = 1_000
"""Pause before a release or expiry is repeated whose write failed."""

ANY_BYTES = 1 << 40
"""A number of bytes that satisfies every waiting fetch."""

_UNAVAILABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_UNCHANGED = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_DURATION = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)

Done = Callable[[ErrorCode], None]
"""Receives NONE once a change is written, or the error of the write."""


def client_error_of(error: ErrorCode) -> ErrorCode:
    """Return the error that a member gets for an error of the share coordinator."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_unchanged = error is ErrorCode.NONE or error in _UNCHANGED
    return error if is_unchanged else ErrorCode.UNKNOWN_SERVER_ERROR


def begin_offset(
    state: ShareState, partition: Partition, settings: ShareDeliverySettings, now_ms: int
) -> int:
    """Return the first offset that a group reads.

    It is the group's start offset, or else follows from `share.auto.offset.reset`.
    """
    if state.start_offset != NO_OFFSET:
        return max(state.start_offset, partition.log_start_offset)
    if settings.offset_reset == "latest":
        return partition.high_watermark
    duration = _DURATION.fullmatch(settings.offset_reset)
    if duration is None:
        return partition.log_start_offset
    days, hours, minutes, seconds = (float(part or 0) for part in duration.groups())
    duration_ms = int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    position = offset_for_timestamp(partition.log, now_ms - duration_ms)
    return partition.high_watermark if position is None else position.offset


class Leadership(NamedTuple):
    """A partition and the leader epoch in which this broker read its share state."""

    partition: Partition
    leader_epoch: int

    @property
    def still_holds(self) -> bool:
        """Whether this broker has led the partition without a break since that epoch.

        The leader epoch may have risen: each follower that dies raises it.  Writes carry the epoch
        in which the state was read, so a broker that led in between would fence them.
        """
        partition = self.partition
        return partition.is_leader and partition.led_since_epoch <= self.leader_epoch


class LedPartition:
    """See the module.  Members acquire with `records`, then call `watch_locks`.

    `forget` is called when the share coordinator has fenced this broker as an earlier leader.
    """

    def __init__(
        self,
        key: ShareKey,
        leadership: Leadership,
        state: ShareState,
        settings: Callable[[], ShareDeliverySettings],
        states: ShareStates,
        timers: Timers,
        now_ms: int,
        forget: Callable[[], None],
        dead_letters: DeadLetterQueue,
        idle: Callable[[], None],
    ) -> None:
        """`state` is the share coordinator's; `leadership` must be valid at this time.

        `settings` returns the group's present settings.  `forget` removes this object from its
        manager.  `idle` is called when all dead letters are written.
        """
        self.key = key
        self.partition = partition = leadership.partition
        self.waiters: set[FetchWaiter] = set()
        """Fetches that wait for records: new ones, or ones that other members release."""
        self.records = SharePartition(state, begin_offset(state, partition, settings(), now_ms))
        self._settings = settings
        self._led_in = leadership
        self._states = states
        self._timers = timers
        self._timer: Timer | None = None
        self._forget = forget
        self._dead_letters = dead_letters
        self._idle = idle
        self._letters = 0
        """How many DeadLetters were decided whose records are not archived yet."""
        self._completing = 0
        """Number of records whose terminal state is being written."""
        self.is_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether this broker has led the partition without a break since it read the state."""
        return self._led_in.still_holds

    @property
    def now_ms(self) -> int:
        """Time of the broker's timers in ms; acquisition locks use it."""
        return int(self._timers.now_ms())

    @property
    def has_dead_letters(self) -> bool:
        """Whether records wait to be written to the dead-letter topic and archived."""
        return self._letters > 0

    # -- operations of members

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgedBatch], done: Done) -> None:
        """Acknowledges records; `done` gets the result of the write.

        Raises AcknowledgementRefused.
        """
        limits = self._settings().limits
        self._write(self.records.acknowledge(member_id, batches, self.now_ms, limits), done)

    def release(self, member_id: str) -> None:
        """Release the records of a member that is gone; others can acquire them after the write."""
        self._give_back(lambda: self.records.release(member_id, self._settings().limits))

    def watch_locks(self) -> None:
        """Sets the timer for the next lock that ends.  Call this after each acquisition."""
        ends_ms = self.records.next_lock_end_ms
        if ends_ms is None:
            return
        if self._timer is None:
            self._timer = self._timers.at(ends_ms, self._locks_end)
        else:
            self._timer.move(ends_ms)

    def stop(self) -> None:
        """Cancels the timer and wakes the waiting fetches.  Writes in progress still end.

        The next leader starts from the state that the share coordinator has by then.
        """
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in tuple(self.waiters):
            waiter.partition_changed()

    # -- writes to the share coordinator

    def _locks_end(self) -> None:
        self._timer = None
        if self.is_current:
            self._give_back(lambda: self.records.expire(self.now_ms, self._settings().limits))

    def _give_back(self, decide: Callable[[], Transition]) -> None:
        """Writes the transition of `decide`; repeats that after RETRY_MS if the write fails."""

        def written(error: ErrorCode) -> None:
            """Sets the timer for another try if the write failed."""
            if self.is_stopped:
                return
            if error is not ErrorCode.NONE:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._timers.after(RETRY_MS, self._locks_end)

        self._write(decide(), written)

    def _write(self, transition: Transition, done: Done) -> None:
        """Writes a transition to the share coordinator, then applies it and calls `done`.

        A transition without a change of state (a renewed lock) is applied at once.
        """
        batches = transition.batches
        self._letters += len(transition.dead_letters)
        if not batches:
            self._settle(transition, ErrorCode.NONE, done)
            return
        start = self.records.start_offset
        completed = sum(
            max(0, batch.last - max(batch.first, start) + 1)
            for batch in batches
            if batch.state in TERMINAL
        )
        self._completing += completed
        written = ShareStateWrite(
            self.records.state_epoch,
            self._led_in.leader_epoch,
            start,
            self.records.delivery_complete_count + self._completing,
            batches,
        )

        def answered(answer: ShareStateAnswer) -> None:
            self._completing -= completed
            self._settle(transition, client_error_of(answer.error), done)

        reply: Reply = self._states.write(self.key, written)
        if isinstance(reply, Promise):
            reply.when_resolved(answered)
        else:
            answered(reply)

    def _settle(self, transition: Transition, error: ErrorCode, done: Done) -> None:
        """Applies a transition, or takes it back after an error; then calls `done`.

        If another broker leads the partition by now, this one stops.  Waiting fetches are woken,
        since records may be available.  Records that are ARCHIVING now go to the dead-letter topic.
        """
        self.records.settle(transition, succeeded=error is ErrorCode.NONE)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.stop()
            self._forget()
        elif not self.is_stopped:
            # A record has no lock while its acknowledgement is being written.  If the write has
            # failed, the member has the record still, and its lock may have ended meanwhile.
            self.watch_locks()
        done(error)
        for waiter in tuple(self.waiters):
            waiter.data_arrived(ANY_BYTES)
        for letters in transition.dead_letters:
            if error is ErrorCode.NONE:
                self._send(letters)
            else:
                self._letters -= 1

    # -- the dead-letter topic

    def resume(self, state: ShareState) -> None:
        """Write the dead letters of `state` that an earlier leader may have left.

        They may be written already.
        """
        limit = self._settings().limits.max_deliveries
        for batch in state.batches:
            if batch.state == DeliveryState.ARCHIVING:
                self._letters += 1
                self._send(
                    resumed(batch.first, batch.last, batch.delivery_count, limit),
                    may_be_written=True,
                )

    def _send(self, letters: DeadLetters, *, may_be_written: bool = False) -> None:
        self._dead_letters.send(
            self.key.group_id,
            self.partition,
            letters,
            may_be_written=may_be_written,
            is_wanted=lambda: self.is_current,
            done=lambda: self._archive(letters),
        )

    def _archive(self, letters: DeadLetters) -> None:
        """Archive records whose dead letters are written, or cannot be written.

        If this broker does not lead the share partition any more, the next leader does it.
        """

        def archived(error: ErrorCode) -> None:
            """Try again later if the write failed."""
            if self.is_stopped:
                return
            if error is not ErrorCode.NONE:
                self._timers.after(RETRY_MS, lambda: self._archive(letters))
                return
            self._letters -= 1
            if not self.has_dead_letters:
                self._idle()

        if not self.is_stopped and self.is_current:
            self._write(self.records.archive(letters), archived)
