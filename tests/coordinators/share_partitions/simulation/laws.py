"""The invariants of share groups, which hold whatever brokers and messages do.

Each invariant is about one share partition in one state epoch: initializing the state again starts
over.

Members
- A record whose acknowledgement (ACCEPT or REJECT) was answered without error is never delivered
  again, by the same leader or a later one.
- One leader delivers a record to a second member only after the first one's lock has ended or it
  has released the record.  While an acknowledgement is being written, no member has the record.
- Acknowledgements by the member that has the records succeed; others are refused.
- A leader counts each delivery, starting from the stored count, up to the limit.  A record's last
  delivery is alone.
- No fetch waits while records are available; records whose lock has ended become available.

Share state
- A new leader starts with the state in the share coordinator's log, offset by offset.
- A write by an earlier leader than the last one that read, or in an earlier state epoch, is never
  applied.  A writer that is told so is one of these.
- A write has its effect: of several counts the highest wins, and among those the highest state.
- A snapshot loses nothing, and follows a fixed number of updates.
- The start offset never falls.  It rises only over records that were accepted or rejected, that
  are at the delivery limit, or that the log no longer has.
- Each written delivery state was acknowledged by a member, and has the right delivery count.
- A record that a member rejected, or that is at the delivery limit, has a dead letter before it is
  archived: see dead_topic.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import NO_OFFSET, TERMINAL, DeliveryState
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from kwire.coordinators.share_partitions.led import RETRY_MS, LedPartition
from tests.coordinators.share_partitions.simulation.dead_topic import DeadTopic
from tests.coordinators.share_partitions.simulation.logs import DataLog
from tests.coordinators.share_partitions.simulation.reference import Mark, Reference, known_of

FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.GAP)
NOT_TAKEN = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
UNREAD: Mark = (0, 0)
GIVEN_UP = (*TERMINAL, DeliveryState.ARCHIVING)
"""The states of a record that no member gets again."""


@dataclass
class Ledger:
    """What happened to the records of one share partition in one state epoch."""

    log: DataLog
    first: int
    """The offset from which the group reads."""
    times: Counter[int] = field(default_factory=Counter)
    """Offset -> the delivery count of its last delivery."""
    said: dict[int, set[AcknowledgeType]] = field(default_factory=dict)
    """Offset -> the acknowledgements of members that had the record, whatever their answers."""
    settled: dict[int, int] = field(default_factory=dict)
    """Offset -> the leader epoch in which it was accepted or rejected without an error."""
    landed: set[int] = field(default_factory=set)
    """Records of which a terminal state was appended to the share coordinator's log."""

    def is_done(self, offset: int) -> bool:
        """Whether a leader may leave the record behind.  That somebody accepted it is not enough:
        the write may have failed."""
        return offset < self.log.start or offset in self.landed


@dataclass
class Hold:
    """A record that a member has."""

    member: str
    until_ms: int
    pending: PendingAcknowledgement | None = None
    """The acknowledgement by the member that has no answer yet."""


@dataclass
class Instance:
    """A share partition at one leader."""

    key: ShareKey
    led: LedPartition
    leader_epoch: int
    known: Mapping[int, Mark]
    """Offset -> delivery count and state when the leader read the share state."""
    ledger: Ledger
    holds: dict[int, Hold] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    ended_since_ms: dict[int, int] = field(default_factory=dict)
    """First offset of a run whose lock has ended -> when the laws saw that first."""


@dataclass
class PendingAcknowledgement:
    """A member's acknowledgement that has no answer yet."""

    instance: Instance
    member: str
    kinds: dict[int, AcknowledgeType]
    sent_ms: int
    held: set[int]
    """Those of the offsets that the member has."""
    holds_all: bool
    """Whether the member has all of them, and no lock has ended."""
    start_offset: int
    """The start offset when the member sent the acknowledgement."""
    redelivered: set[int] = field(default_factory=set)


class Fence(NamedTuple):
    """The highest epochs that were answered before a request was sent."""

    leader_epochs: Mapping[int, int]
    """State epoch -> the highest leader epoch that has read the state."""
    state_epoch: int


class SharingLaws:
    """Checks every request and answer against the invariants."""

    def __init__(
        self,
        logs: Mapping[ShareKey, DataLog],
        deliveries: int,
        lock_ms: int,
        dead_topic: DeadTopic,
    ) -> None:
        self._logs = logs
        self._dead_topic = dead_topic
        self._deliveries = deliveries
        self._lock_ms = lock_ms
        self.seen: Counter[str] = Counter()
        self.ledgers: dict[tuple[ShareKey, int], Ledger] = {}
        self.instances: dict[int, Instance] = {}
        """id() of a LedPartition, which the instance keeps alive -> its instance."""
        self._begins_at: dict[tuple[ShareKey, int], int] = {}
        self._asked_state: Counter[ShareKey] = Counter()
        self._asked_leader: Counter[ShareKey] = Counter()
        self._begun: Counter[ShareKey] = Counter()
        self._read: dict[ShareKey, dict[int, int]] = {key: {} for key in logs}
        self._answered: dict[ShareKey, list[ShareState]] = {key: [] for key in logs}

    # -- the share coordinator

    def begins(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """The group will read from `start_offset`; call this before the request is sent."""
        self._begins_at[key, state_epoch] = start_offset

    def note_beginning(self, key: ShareKey, state_epoch: int) -> None:
        self._asked_state[key] = max(self._asked_state[key], state_epoch)

    def begun(self, key: ShareKey, state_epoch: int, answer: ShareStateAnswer) -> None:
        self.seen[f"begin {answer.error.name}"] += 1
        if answer.error is ErrorCode.NONE:
            self._begun[key] = max(self._begun[key], state_epoch)
        if answer.error is ErrorCode.FENCED_STATE_EPOCH:
            assert state_epoch < self._asked_state[key], "fenced without a later state epoch"

    def note_reading(self, key: ShareKey, leader_epoch: int) -> None:
        self._asked_leader[key] = max(self._asked_leader[key], leader_epoch)

    def read(
        self, key: ShareKey, leader_epoch: int, known: Reference | None, answer: ShareStateAnswer
    ) -> None:
        self.seen[f"read {answer.error.name}"] += 1
        if answer.error is ErrorCode.NONE:
            assert known is not None
            assert answer.state is not None
            assert known_of(answer.state) == known.known, ("not what the log says", known, answer)
            self._answered[key].append(answer.state)
            read = self._read[key]
            read[known.state_epoch] = max(read.get(known.state_epoch, -1), leader_epoch)
        if answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            assert leader_epoch < self._asked_leader[key], "fenced, and there is no later leader"

    def fence(self, key: ShareKey) -> Fence:
        return Fence(dict(self._read[key]), self._begun[key])

    def written(
        self, key: ShareKey, written: ShareStateWrite, fence: Fence, answer: ShareStateAnswer
    ) -> None:
        self.seen[f"write {answer.error.name}"] += 1
        if answer.error is ErrorCode.NONE:
            leader_epoch = fence.leader_epochs.get(written.state_epoch, -1)
            assert written.leader_epoch >= leader_epoch, ("an earlier leader's", written, fence)
            assert written.state_epoch >= fence.state_epoch, ("of an earlier epoch", written, fence)
        if answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            assert written.leader_epoch < self._asked_leader[key], "there is no later leader"
        if answer.error is ErrorCode.FENCED_STATE_EPOCH:
            assert written.state_epoch < self._asked_state[key], "nobody began anew"

    def check_landed(
        self, key: ShareKey, written: ShareStateWrite, before: Reference, after: Reference | None
    ) -> None:
        """The share coordinator has appended a write."""
        assert after is not None
        assert after.known == before.after(written), ("not what was written", written, before)
        assert after.leader_epoch == before.leader_epoch
        assert written.state_epoch == before.state_epoch, ("of an earlier epoch", written, before)
        ledger = self.ledgers[key, written.state_epoch]
        for first, last, count, state in written.batches:
            for offset in range(first, last + 1):
                self._check_mark(ledger, offset, count, DeliveryState(state))
                if state == DeliveryState.ARCHIVED:
                    self._check_dead_letter(ledger, key, offset)
            if state in TERMINAL:
                ledger.landed.update(range(first, last + 1))
        for offset in range(ledger.first, written.start_offset):
            assert ledger.is_done(offset), ("skipped", offset, written)

    def _check_dead_letter(self, ledger: Ledger, key: ShareKey, offset: int) -> None:
        """A record is archived."""
        if AcknowledgeType.GAP in ledger.said.get(offset, set()):
            return
        assert self._dead_topic.has(key.partition, offset), ("no dead letter", key, offset)
        self.seen["archived with a dead letter"] += 1

    def _check_mark(self, ledger: Ledger, offset: int, count: int, state: DeliveryState) -> None:
        about = (offset, count, state, ledger.times[offset], ledger.said.get(offset))
        assert 1 <= count <= ledger.times[offset], ("delivered less often than written", about)
        kinds = ledger.said.get(offset, set())
        if state is DeliveryState.ACKNOWLEDGED:
            assert AcknowledgeType.ACCEPT in kinds, ("nobody accepted it", about)
        elif state in (DeliveryState.ARCHIVED, DeliveryState.ARCHIVING):
            rejected = kinds & {AcknowledgeType.REJECT, AcknowledgeType.GAP}
            assert rejected or count == self._deliveries, ("nobody rejected it", about)
        else:
            assert state is DeliveryState.AVAILABLE, about
            assert count < self._deliveries, ("available beyond the delivery limit", about)

    def summarized(self, known: Reference | None, answer: ShareStateAnswer) -> None:
        if answer.error is ErrorCode.NONE and known is not None:
            assert answer.state is not None
            assert known_of(answer.state) == known.known

    # -- leaders

    def opened(
        self, key: ShareKey, leader_epoch: int, state: ShareState, found: LedPartition
    ) -> None:
        """A leader starts from `state`."""
        known = known_of(state)
        assert any(
            (known[0], known[1], known[3]) == (each[0], each[1], each[3])
            for each in map(known_of, reversed(self._answered[key]))
        ), ("the share coordinator never answered this", state)
        log, marks = self._logs[key], known[3]
        begins_at = self._begins_at[key, state.state_epoch]
        start = log.start if state.start_offset == NO_OFFSET else max(state.start_offset, log.start)
        first = log.start if begins_at == NO_OFFSET else begins_at
        ledger = self.ledgers.setdefault((key, state.state_epoch), Ledger(log, first))
        for other in self.instances.values():
            if other.key == key and other.led.partition is found.partition:
                ended = other.led.is_stopped or not other.led.is_current
                assert ended, ("it is open already", key, other.leader_epoch)
        leads_since = found.partition.led_since_epoch
        assert leads_since <= leader_epoch, (
            "another leader was in between",
            leader_epoch,
            leads_since,
        )
        for offset, epoch in ledger.settled.items():
            if epoch <= leader_epoch and offset >= start:
                assert marks.get(offset, UNREAD)[1] in GIVEN_UP, ("forgotten", offset, state)
        for offset in range(ledger.first, start):
            assert ledger.is_done(offset), ("skipped", offset, state)
        while marks.get(start, UNREAD)[1] in TERMINAL:
            start += 1
        assert found.records.start_offset == start, (found.records.start_offset, start, state)
        self.instances[id(found)] = Instance(key, found, leader_epoch, marks, ledger)
        self.seen["opened"] += 1

    def tries(self, key: ShareKey, written: ShareStateWrite) -> None:
        """A leader sends a write."""
        for instance in self.instances.values():
            if (instance.key, instance.leader_epoch) == (key, written.leader_epoch):
                instance.ended_since_ms.clear()

    def check_locks(self, instances: Iterable[Instance], now_ms: int) -> None:
        """Check that no lock ended longer ago than RETRY_MS, unless a write is under way."""
        for instance in instances:
            led = instance.led
            is_writing = any(run.is_changing for run in led.records._runs)
            if led.is_stopped or not led.is_current or is_writing:
                instance.ended_since_ms.clear()
                continue
            ended = [
                run.first
                for run in led.records._runs
                if run.delivery.state is DeliveryState.ACQUIRED
                and not run.is_changing
                and run.delivery.lock_ends_ms <= now_ms
            ]
            since_ms = instance.ended_since_ms
            instance.ended_since_ms = {each: since_ms.get(each, now_ms) for each in ended}
            for first, seen_ms in instance.ended_since_ms.items():
                assert now_ms - seen_ms <= RETRY_MS, ("a lock never ends", first)

    def check_no_lock_has_ended(self, instance: Instance, now_ms: int) -> None:
        """Check that no write is under way, and that no lock ended longer ago than RETRY_MS."""
        led = instance.led
        if led.is_stopped or not led.is_current:
            return
        for run in led.records._runs:
            assert not run.is_changing, ("a write never ends", instance.key, run)
            if run.delivery.state is DeliveryState.ACQUIRED:
                over_ms = now_ms - run.delivery.lock_ends_ms
                assert over_ms <= RETRY_MS, ("a lock never ends", instance.key, run, over_ms)

    # -- members

    def delivered(
        self, instance: Instance, member: str, first: int, last: int, count: int, now_ms: int
    ) -> None:
        ledger = instance.ledger
        about = (instance.key, member, first, last, count)
        assert 1 <= count <= self._deliveries, ("beyond the delivery limit", about)
        assert first == last or count < self._deliveries, ("the last delivery is not alone", about)
        assert ledger.log.start <= last < ledger.log.end
        for offset in range(first, last + 1):
            settled = ledger.settled.get(offset)
            assert settled is None or settled > instance.leader_epoch, (
                "delivered after it was settled",
                offset,
                about,
            )
            before = instance.times.get(offset, instance.known.get(offset, UNREAD)[0])
            assert count == before + 1, ("wrong delivery count", before, offset, about)
            assert offset >= ledger.first, ("before the group begins", offset, about)
            hold = instance.holds.get(offset)
            if hold is not None and hold.pending is not None:
                hold.pending.redelivered.add(offset)
            elif hold is not None:
                assert now_ms >= hold.until_ms, ("two members have it", offset, hold.member, about)
                self.seen["after a lock"] += 1
            if count > 1:
                self.seen["again"] += 1
            instance.times[offset] = count
            ledger.times[offset] = max(ledger.times[offset], count)
            instance.holds[offset] = Hold(member, now_ms + self._lock_ms)

    def sends(
        self, instance: Instance, member: str, kinds: dict[int, AcknowledgeType], now_ms: int
    ) -> PendingAcknowledgement:
        """A member sends an acknowledgement."""
        start = instance.led.records.start_offset
        mine = {
            offset
            for offset in kinds
            if (hold := instance.holds.get(offset)) is not None
            and hold.member == member
            and hold.pending is None
        }
        certain = mine == kinds.keys() and all(
            now_ms < instance.holds[offset].until_ms and offset >= start for offset in kinds
        )
        pending = PendingAcknowledgement(instance, member, kinds, now_ms, mine, certain, start)
        for offset in mine:
            instance.holds[offset].pending = pending
            instance.ledger.said.setdefault(offset, set()).add(kinds[offset])
        return pending

    def receives(self, pending: PendingAcknowledgement, error: ErrorCode) -> None:
        """The acknowledgement is answered."""
        self.seen[f"acknowledged {error.name}"] += 1
        instance = pending.instance
        about = (instance.key, pending.member, pending.kinds, error)
        assert not (pending.holds_all and error in NOT_TAKEN), (
            "refused although the member has all of them",
            about,
        )
        for offset, kind in pending.kinds.items():
            hold = instance.holds.get(offset)
            if hold is not None and hold.pending is pending:
                hold.pending = None
            if error is not ErrorCode.NONE:
                continue
            if offset < pending.start_offset:
                if hold is not None and hold.member == pending.member:
                    del instance.holds[offset]
                continue
            assert offset in pending.held, (
                "accepted from a member that does not have it",
                offset,
                about,
            )
            if kind in FINAL:
                assert offset not in pending.redelivered, (
                    "delivered while it was being written",
                    offset,
                    about,
                )
                settled = instance.ledger.settled
                settled[offset] = max(settled.get(offset, -1), instance.leader_epoch)
            if hold is None or offset in pending.redelivered:
                continue
            if kind is AcknowledgeType.RENEW:
                hold.until_ms = pending.sent_ms + self._lock_ms
            else:
                del instance.holds[offset]

    def check_has_nothing(self, instance: Instance, member: str) -> None:
        """A member without a session has no records; call this when nothing is under way."""
        led = instance.led
        if led.is_stopped or not led.is_current:
            return
        for run in led.records._runs:
            held = run.delivery.state is DeliveryState.ACQUIRED and not run.is_changing
            assert not held or run.delivery.member_id != member, ("not released", member, run)

    def session_ended(self, instances: Iterable[Instance], member: str) -> None:
        """A member's session ends, so other members may get its records."""
        for instance in instances:
            for offset, hold in list(instance.holds.items()):
                if hold.member == member and hold.pending is None:
                    del instance.holds[offset]
