"""One partition that this broker leads, as one share group reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.broker.timers import Timer, Timers
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.batches import NO_OFFSET, TERMINAL
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.partition import AcknowledgedBatch, SharePartition, Transition
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, Written
from kwire.coordinators.share_partitions.limits import GroupSettings
from kwire.log import offset_for_timestamp
from kwire.storage.partitions.partition import FetchWaiter, Partition

if TYPE_CHECKING:
    from kwire.coordinators.runtime.share import Reply
    from kwire.coordinators.share_partitions.states import ShareStates

RETRY_MS = 1_000
"""Until what a member has left is given back again, where that could not be written."""

ANY_BYTES = 1 << 40
"""More than any reader waits for."""

_UNAVAILABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_AS_THEY_ARE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_DURATION = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)

Done = Callable[[ErrorCode], None]
"""Told that something is written, or why it is not."""


def told(error: ErrorCode) -> ErrorCode:
    """What a member is told of an error of the share coordinator."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    known = error is ErrorCode.NONE or error in _AS_THEY_ARE
    return error if known else ErrorCode.UNKNOWN_SERVER_ERROR


def begin_offset(
    state: ShareState, partition: Partition, settings: GroupSettings, now_ms: int
) -> int:
    """Where a group begins: where it was, or where `share.auto.offset.reset` says."""
    if state.start_offset != NO_OFFSET:
        return max(state.start_offset, partition.log_start_offset)
    if settings.offset_reset == "latest":
        return partition.high_watermark
    duration = _DURATION.fullmatch(settings.offset_reset)
    if duration is None:
        return partition.log_start_offset
    days, hours, minutes, seconds = (float(part or 0) for part in duration.groups())
    back_ms = int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    found = offset_for_timestamp(partition.log, now_ms - back_ms)
    return partition.high_watermark if found is None else found.offset


class Leadership(NamedTuple):
    """A partition and the leader epoch in which this broker reads its state."""

    partition: Partition
    leader_epoch: int

    @property
    def goes_on(self) -> bool:
        """Whether the partition has been led here ever since.

        It may be led in a later epoch by now, as each follower that dies gives it one.  What is
        written names the epoch in which the state was read: whoever led it in between fences that.
        """
        partition = self.partition
        return partition.is_leader and partition.led_since_epoch <= self.leader_epoch


class LedPartition:
    """See the module.  `forget` is called once the share coordinator has another leader in mind."""

    def __init__(
        self,
        key: ShareKey,
        led_in: Leadership,
        state: ShareState,
        settings: Callable[[], GroupSettings],
        states: ShareStates,
        timers: Timers,
        now_ms: int,
        forget: Callable[[], None],
    ) -> None:
        self.key = key
        self.partition = partition = led_in.partition
        self.waiters: set[FetchWaiter] = set()
        """Who waits for records that others may give back."""
        self.records = SharePartition(state, begin_offset(state, partition, settings(), now_ms))
        self._settings = settings
        self._led_in = led_in
        self._states = states
        self._timers = timers
        self._timer: Timer | None = None
        self._forget = forget
        self.has_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether the partition has been led here ever since its state was read."""
        return self._led_in.goes_on

    @property
    def now_ms(self) -> int:
        """The clock of locks."""
        return int(self._timers.now_ms())

    # -- what members do

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgedBatch], done: Done) -> None:
        """`done` is told once it is written, or why not.  Raises Refused."""
        limits = self._settings().limits
        self._write(self.records.acknowledge(member_id, batches, self.now_ms, limits), done)

    def release(self, member_id: str) -> None:
        """A member is gone: what it has is for others, once that is written."""
        self._give_back(lambda: self.records.release(member_id, self._settings().limits))

    def watch_locks(self) -> None:
        """Have what is not spoken of in time given back; called when something was acquired."""
        ends_ms = self.records.next_lock_end_ms
        if ends_ms is None:
            return
        if self._timer is None:
            self._timer = self._timers.at(ends_ms, self._locks_end)
        else:
            self._timer.move(ends_ms)

    def stop(self) -> None:
        """Nobody reads it here any longer, nor is anything written that was known of it.

        Whoever reads it next begins with what the share coordinator has by then.
        """
        self.has_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in tuple(self.waiters):
            waiter.partition_changed()

    # -- the share coordinator

    def _locks_end(self) -> None:
        self._timer = None
        if self.is_current:
            self._give_back(lambda: self.records.expire(self.now_ms, self._settings().limits))

    def _give_back(self, decide: Callable[[], Transition]) -> None:
        def written(error: ErrorCode) -> None:
            if self.has_stopped:
                return
            if error is ErrorCode.NONE:
                self.watch_locks()
            else:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._timers.after(RETRY_MS, self._locks_end)

        self._write(decide(), written)

    def _write(self, transition: Transition, done: Done) -> None:
        batches = transition.batches
        if not batches:
            self._settle(transition, ErrorCode.NONE, done)
            return
        ended = sum(each.last - each.first + 1 for each in batches if each.state in TERMINAL)
        written = Written(
            self.records.state_epoch,
            self._led_in.leader_epoch,
            self.records.start_offset,
            self.records.delivery_complete_count + ended,
            batches,
        )
        reply: Reply = self._states.write(self.key, written)
        if isinstance(reply, Promise):
            reply.when_resolved(lambda answer: self._answered(transition, answer, done))
        else:
            self._answered(transition, reply, done)

    def _answered(self, transition: Transition, answer: Answer, done: Done) -> None:
        self._settle(transition, told(answer.error), done)

    def _settle(self, transition: Transition, error: ErrorCode, done: Done) -> None:
        self.records.settle(transition, well=error is ErrorCode.NONE)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.stop()
            self._forget()
        done(error)
        for waiter in tuple(self.waiters):
            waiter.data_arrived(ANY_BYTES)
