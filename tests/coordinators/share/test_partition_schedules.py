"""Random schedules of a share partition: members, failed writes, restarts, time.

- No record is acquired by two members, and none is acquired after it reached a terminal state.
- The start offset only rises, and never over a record that is not in a terminal state.
- No record is delivered more often than the limit.
- After a restart from the written state, no accepted record is delivered again.
- In the end every record is accepted, rejected or at its delivery limit.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.coordinators.share.batches import DeliveryState, combine
from kwire.coordinators.share.partition import (
    AcknowledgedBatch,
    AcknowledgementRefused,
    AcknowledgeType,
    ShareLimits,
    SharePartition,
    Transition,
)
from kwire.coordinators.share.state import ShareState

LIMITS = ShareLimits(max_record_locks=20, max_deliveries=3, lock_ms=1_000)
RECORDS = 60
BATCH = 4

members = st.sampled_from("abc")
types = st.sampled_from([kind for kind in AcknowledgeType if kind is not AcknowledgeType.GAP])
offsets = st.integers(0, RECORDS - 1)


class Schedule(RuleBasedStateMachine):
    """One partition of a log of batches of four records."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ShareState(snapshot_epoch=0, state_epoch=1, start_offset=0)
        self.partition = SharePartition(self.state, 0)
        self.now_ms = 1_000
        self.held: dict[int, tuple[str, int]] = {}
        """By offset: who has it, and until when."""
        self.done: set[int] = set()
        """Accepted or rejected, and that was written."""
        self.deliveries = [0] * RECORDS
        self.last_start = 0

    # -- what members do

    @rule(member=members, most=st.integers(1, 12), at_most=st.booleans())
    def read(self, member: str, most: int, at_most: bool) -> None:
        if not self.partition.may_acquire(LIMITS):
            return
        at = self.partition.next_fetch_offset // BATCH * BATCH
        read = [(each, each + BATCH - 1) for each in range(at, min(at + 24, RECORDS), BATCH)]
        for first, last, count in self.partition.acquire(
            member, read, most, 8, self.now_ms, LIMITS, at_most=at_most
        ):
            for offset in range(first, last + 1):
                assert offset not in self.done, "delivered after it was done with"
                assert offset not in self.held, "in two hands"
                self.held[offset] = member, self.now_ms + LIMITS.lock_ms
                self.deliveries[offset] += 1
                assert count <= LIMITS.max_deliveries

    @rule(
        member=members, first=offsets, length=st.integers(1, 9), kind=types, succeeded=st.booleans()
    )
    def say(
        self, member: str, first: int, length: int, kind: AcknowledgeType, succeeded: bool
    ) -> None:
        last = min(first + length, RECORDS) - 1
        batch = AcknowledgedBatch(first, last, [kind])
        said = [each for each in range(first, last + 1) if each >= self.partition.start_offset]
        may = all(self.held.get(each, ("", 0))[0] == member for each in said)
        try:
            transition = self.partition.acknowledge(member, [batch], self.now_ms, LIMITS)
        except AcknowledgementRefused:
            assert not may or last >= self.partition.end_offset
            return
        assert may, "somebody else's"
        self.settle(transition, succeeded)
        if not succeeded:
            return
        for offset in said:
            if kind is AcknowledgeType.RENEW:
                self.held[offset] = member, self.now_ms + LIMITS.lock_ms
            else:
                del self.held[offset]
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
                self.done.add(offset)

    @rule(member=members, succeeded=st.booleans())
    def leave(self, member: str, succeeded: bool) -> None:
        self.settle(self.partition.release(member, LIMITS), succeeded)
        if succeeded:
            self.held = {o: holder for o, holder in self.held.items() if holder[0] != member}

    # -- time and the share coordinator

    @rule(time_ms=st.sampled_from([1, 400, 1_100]))
    def wait(self, time_ms: int) -> None:
        self.now_ms += time_ms
        self.settle(self.partition.expire(self.now_ms, LIMITS), succeeded=True)
        self.held = {o: holder for o, holder in self.held.items() if holder[1] > self.now_ms}

    @rule()
    def restart(self) -> None:
        self.partition = SharePartition(self.state, self.state.start_offset)
        self.held.clear()
        self.last_start = self.partition.start_offset

    def settle(self, transition: Transition, succeeded: bool) -> None:
        if succeeded and transition.batches:
            start = self.partition.start_offset
            batches = combine([*self.state.batches, *transition.batches], start)
            self.state = replace(self.state, start_offset=start, batches=tuple(batches))
        self.partition.settle(transition, succeeded=succeeded)

    # -- what holds

    @invariant()
    def start_moves_on(self) -> None:
        start = self.partition.start_offset
        assert start >= self.last_start
        self.last_start = start
        for offset in self.held:
            assert offset >= start
        for offset in range(start):
            archived = self.deliveries[offset] >= LIMITS.max_deliveries
            assert offset in self.done or archived

    @invariant()
    def runs_touch(self) -> None:
        at = self.partition.start_offset
        for run in self.partition._runs:
            assert run.first == at
            assert not run.is_changing
            holders = {self.held.get(each, ("", 0))[0] for each in range(run.first, run.last + 1)}
            held = run.delivery.state is DeliveryState.ACQUIRED
            assert holders == ({run.delivery.member_id} if held else {""})
            at = run.last + 1

    def teardown(self) -> None:
        self.wait(LIMITS.lock_ms)
        for _ in range(RECORDS * LIMITS.max_deliveries):
            self.read("a", RECORDS, at_most=False)
            for offset in sorted(self.held):
                self.say("a", offset, 1, AcknowledgeType.ACCEPT, succeeded=True)
            if self.partition.start_offset == RECORDS:
                return
        raise AssertionError(f"stuck at {self.partition.start_offset}")


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=40, stateful_step_count=40)
