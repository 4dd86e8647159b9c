"""A share partition on its leader: writes to the share coordinator, and their repetition."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.broker.timers import Timers
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.share import Reply
from kwire.coordinators.share.batches import DeliveryState, StateBatch
from kwire.coordinators.share.dead_letters import Cause, DeadLetters
from kwire.coordinators.share.machine import DONE, ShareStateAnswer
from kwire.coordinators.share.partition import AcknowledgedBatch, ShareLimits
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from kwire.coordinators.share_partitions.dead_letter_queue import DeadLetterQueue
from kwire.coordinators.share_partitions.led import (
    RETRY_MS,
    Leadership,
    LedPartition,
    begin_offset,
)
from kwire.coordinators.share_partitions.limits import ShareDeliverySettings
from kwire.coordinators.share_partitions.states import ShareStates
from kwire.storage.partitions.partition import Partition

LOCK_MS = 30_000
SETTINGS = ShareDeliverySettings(ShareLimits(lock_ms=LOCK_MS), "earliest", committed_only=False)
KEY = ShareKey("g", bytes(16), 0)


class Clock(Timers):
    """Timers that a test moves."""

    time_ms = 0.0

    @staticmethod
    def now_ms() -> float:
        return Clock.time_ms

    def move_to(self, time_ms: float) -> None:
        Clock.time_ms = time_ms
        self.fire_due()


class Coordinator:
    """Answers with `answers`, then with success, and keeps what was written."""

    def __init__(self) -> None:
        self.answers: list[Reply] = []
        self.written: list[ShareStateWrite] = []

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        self.written.append(written)
        return self.answers.pop(0) if self.answers else DONE


class Waiter:
    """Counts how often it is told that there may be records."""

    def __init__(self) -> None:
        self.told = 0

    def data_arrived(self, size_bytes: int) -> None:
        self.told += 1

    def partition_changed(self) -> None:
        self.told += 1


class Reading:
    """One led partition, with a member that has its ten records, and a waiter."""

    def __init__(self, limits: ShareLimits | None = None) -> None:
        Clock.time_ms = 0.0
        self.limits = limits or SETTINGS.limits
        self.letters: list[tuple[DeadLetters, bool, Callable[[], bool], Callable[[], None]]] = []
        self.idle = 0
        self.clock, self.coordinator, self.waiter = Clock(), Coordinator(), Waiter()
        self.forgotten = 0
        self.partition: Any = SimpleNamespace(
            leader_epoch=3, led_since_epoch=3, is_leader=True, log_start_offset=0, high_watermark=10
        )
        self.led = LedPartition(
            KEY,
            Leadership(cast("Partition", self.partition), self.partition.leader_epoch),
            ShareState(0, 1),
            lambda: ShareDeliverySettings(self.limits, "earliest", committed_only=False),
            cast("ShareStates", self.coordinator),
            self.clock,
            0,
            self._forget,
            cast("DeadLetterQueue", self),
            self._became_idle,
        )
        self.led.waiters.add(cast("Any", self.waiter))
        self.acquire("m")

    def _forget(self) -> None:
        self.forgotten += 1

    def _became_idle(self) -> None:
        self.idle += 1

    def send(
        self,
        group_id: str,
        partition: object,
        letters: DeadLetters,
        *,
        may_be_written: bool,
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """Takes the place of a DeadLetterQueue."""
        assert (group_id, partition) == (KEY.group_id, self.partition)
        self.letters.append((letters, may_be_written, is_wanted, done))

    def acquire(self, member_id: str) -> list[tuple[int, int, int]]:
        acquired = self.led.records.acquire(
            member_id, [(0, 9)], 10, 10, self.led.now_ms, self.limits
        )
        self.led.watch_locks()
        return [(each.first, each.last, each.delivery_count) for each in acquired]


@pytest.fixture
def reading() -> Reading:
    return Reading()


def away() -> ShareStateAnswer:
    return ShareStateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def delayed(answer: ShareStateAnswer) -> tuple[Reply, Callable[[], None]]:
    """An answer, and what has it come."""
    promise = Promise[ShareStateAnswer]()
    return promise, lambda: promise.resolve(answer)


def test_expiry_is_repeated_after_a_failed_write(reading: Reading) -> None:
    """Nobody else would do it: the member is gone, and no data comes."""
    reading.coordinator.answers = [away(), away()]
    reading.clock.move_to(LOCK_MS)
    reading.clock.move_to(LOCK_MS + RETRY_MS - 1)
    assert len(reading.coordinator.written) == 1, "not repeated before the pause is over"
    assert reading.acquire("other") == []
    told = reading.waiter.told
    for attempt in (1, 2):
        reading.clock.move_to(LOCK_MS + attempt * RETRY_MS)
    assert reading.waiter.told > told
    assert reading.acquire("other") == [(0, 9, 2)]
    assert len(reading.coordinator.written) == 3
    for written in reading.coordinator.written:
        assert (written.state_epoch, written.leader_epoch, written.start_offset) == (1, 3, 0)
        assert [batch.state for batch in written.batches] == [DeliveryState.AVAILABLE]


def test_lock_that_ended_during_a_failed_acknowledgement_is_released(reading: Reading) -> None:
    reply, arrive = delayed(away())
    reading.coordinator.answers = [reply]
    errors: list[ErrorCode] = []
    reading.led.acknowledge("m", [AcknowledgedBatch(0, 9, [1])], errors.append)
    reading.clock.move_to(LOCK_MS + 1)
    assert reading.acquire("other") == [], "the acknowledgement may still be written"
    arrive()
    assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    reading.clock.move_to(LOCK_MS + 2)
    assert reading.acquire("other") == [(0, 9, 2)]


def test_failed_release_leaves_records_until_their_locks_end(
    reading: Reading,
) -> None:
    reading.coordinator.answers = [away()]
    reading.led.release("m")
    reading.clock.move_to(RETRY_MS)
    reading.clock.move_to(LOCK_MS - 1)
    assert (reading.acquire("other"), len(reading.coordinator.written)) == ([], 1)
    reading.clock.move_to(LOCK_MS)
    assert reading.acquire("other") == [(0, 9, 2)]
    assert len(reading.coordinator.written) == 2


def test_waiting_fetch_gets_records_whose_lock_ends(reading: Reading) -> None:
    reading.clock.move_to(LOCK_MS - 1)
    assert (reading.waiter.told, reading.acquire("other")) == (0, [])
    reading.clock.move_to(LOCK_MS)
    assert reading.waiter.told == 1
    assert reading.acquire("other") == [(0, 9, 2)]
    reading.clock.move_to(2 * LOCK_MS)
    assert reading.acquire("m") == [(0, 9, 3)]


def test_records_being_written_cannot_be_acquired(reading: Reading) -> None:
    reply, arrive = delayed(DONE)
    reading.coordinator.answers = [reply]
    told: list[ErrorCode] = []
    reading.led.acknowledge("m", [AcknowledgedBatch(0, 9, [1])], told.append)
    reading.clock.move_to(LOCK_MS)
    assert (told, reading.acquire("other")) == ([], [])
    arrive()
    assert told == [ErrorCode.NONE]
    assert reading.led.records.start_offset == 10
    assert reading.coordinator.written[0].delivery_complete_count == 10


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH])
def test_fenced_partition_stops_and_is_dropped(reading: Reading, error: ErrorCode) -> None:
    reading.coordinator.answers = [ShareStateAnswer(error)]
    told: list[ErrorCode] = []
    reading.led.acknowledge("m", [AcknowledgedBatch(0, 9, [1])], told.append)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (reading.forgotten, reading.led.is_stopped) == (1, True)
    reading.clock.move_to(10 * LOCK_MS)
    assert len(reading.coordinator.written) == 1, "a stopped partition writes nothing"


def test_partition_led_elsewhere_in_between_writes_no_expiry(
    reading: Reading,
) -> None:
    reading.partition.leader_epoch = reading.partition.led_since_epoch = 5
    assert not reading.led.is_current
    reading.clock.move_to(LOCK_MS)
    assert reading.coordinator.written == []


def test_partition_led_in_a_later_epoch_without_a_break_is_current(reading: Reading) -> None:
    reading.partition.leader_epoch = 5
    assert reading.led.is_current
    reading.partition.is_leader = False
    assert not reading.led.is_current


def test_stop_before_an_answer_sets_no_timer(reading: Reading) -> None:
    reply, arrive = delayed(away())
    reading.coordinator.answers = [reply]
    reading.clock.move_to(LOCK_MS)
    reading.led.stop()
    arrive()
    reading.clock.move_to(10 * LOCK_MS)
    assert len(reading.coordinator.written) == 1


# -- dead letters


DEAD_LETTERS = ShareLimits(lock_ms=LOCK_MS, max_deliveries=2, has_dead_letter_topic=True)


@pytest.fixture
def giving_up() -> Reading:
    return Reading(DEAD_LETTERS)


def states(reading: Reading) -> list[tuple[int, int, str]]:
    """First and last offset and state of each batch written, in order."""
    return [
        (batch.first, batch.last, DeliveryState(batch.state).name)
        for written in reading.coordinator.written
        for batch in written.batches
    ]


def reject(reading: Reading, *batch: int) -> list[ErrorCode]:
    """Reject records; return the answers that came at once."""
    told: list[ErrorCode] = []
    first, last = batch
    reading.led.acknowledge("m", [AcknowledgedBatch(first, last, [3])], told.append)
    return told


def test_rejected_records_are_archived_once_their_dead_letters_are_written(
    giving_up: Reading,
) -> None:
    assert reject(giving_up, 0, 3) == [ErrorCode.NONE], "the answer does not wait for the topic"
    [(letters, may_be_written, is_wanted, done)] = giving_up.letters
    assert (letters, may_be_written) == (DeadLetters(0, 3, 1, Cause.REJECTED), False)
    assert is_wanted()
    assert states(giving_up) == [(0, 3, "ARCHIVING")]
    assert giving_up.led.records.start_offset == 0
    assert giving_up.coordinator.written[0].delivery_complete_count == 0
    assert (giving_up.led.has_dead_letters, giving_up.idle) == (True, 0)
    done()
    assert states(giving_up) == [(0, 3, "ARCHIVING"), (0, 3, "ARCHIVED")]
    assert giving_up.led.records.start_offset == 4
    assert giving_up.coordinator.written[1].delivery_complete_count == 4
    assert (giving_up.led.has_dead_letters, giving_up.idle) == (False, 1)


def test_records_at_the_delivery_limit_get_dead_letters(giving_up: Reading) -> None:
    giving_up.clock.move_to(LOCK_MS)
    assert giving_up.letters == []
    assert giving_up.acquire("m") == [(0, 9, 2)]
    giving_up.clock.move_to(2 * LOCK_MS)
    assert [letters for letters, *_ in giving_up.letters] == [DeadLetters(0, 9, 2, Cause.EXHAUSTED)]


def test_failed_write_of_a_rejection_writes_no_dead_letter(giving_up: Reading) -> None:
    giving_up.coordinator.answers = [away()]
    assert reject(giving_up, 0, 3) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert giving_up.letters == []
    assert not giving_up.led.has_dead_letters


def test_failed_write_after_a_dead_letter_is_repeated(giving_up: Reading) -> None:
    reject(giving_up, 0, 3)
    giving_up.coordinator.answers = [away(), away()]
    giving_up.letters[0][3]()
    assert giving_up.idle == 0
    giving_up.clock.move_to(RETRY_MS)
    giving_up.clock.move_to(2 * RETRY_MS)
    assert states(giving_up) == [(0, 3, "ARCHIVING"), *[(0, 3, "ARCHIVED")] * 3]
    assert (giving_up.led.has_dead_letters, giving_up.idle) == (False, 1)
    assert len(giving_up.letters) == 1, "the dead letter is written once"


def test_later_leader_archives_what_an_earlier_one_has_written(giving_up: Reading) -> None:
    reject(giving_up, 0, 3)
    giving_up.partition.led_since_epoch = 5
    assert not giving_up.letters[0][2]()
    giving_up.letters[0][3]()
    assert states(giving_up) == [(0, 3, "ARCHIVING")]


def test_stopped_share_partition_archives_nothing(giving_up: Reading) -> None:
    reject(giving_up, 0, 3)
    giving_up.led.stop()
    giving_up.letters[0][3]()
    assert states(giving_up) == [(0, 3, "ARCHIVING")]


def test_new_leader_resumes_the_dead_letters_in_the_share_state(giving_up: Reading) -> None:
    archiving = DeliveryState.ARCHIVING
    batches = (
        StateBatch(0, 1, 1, archiving),
        StateBatch(2, 2, 2, archiving),
        StateBatch(3, 3, 2, DeliveryState.ARCHIVED),
    )
    giving_up.led.resume(ShareState(0, 1, start_offset=0, batches=batches))
    assert [each[:2] for each in giving_up.letters] == [
        (DeadLetters(0, 1, 1, Cause.REJECTED), True),
        (DeadLetters(2, 2, 2, Cause.EXHAUSTED), True),
    ]


def test_count_of_complete_records_includes_those_being_written(giving_up: Reading) -> None:
    for first in (0, 4):
        reject(giving_up, first, first + 1)
    waiting = [delayed(DONE), delayed(DONE)]
    giving_up.coordinator.answers = [reply for reply, _ in waiting]
    for *_, done in giving_up.letters:
        done()
    assert [each.delivery_complete_count for each in giving_up.coordinator.written] == [0, 0, 2, 4]
    for _, arrive in waiting:
        arrive()
    assert giving_up.led.records.delivery_complete_count == 2, "of those after the start offset"


def test_deleted_records_are_archived_but_not_counted(giving_up: Reading) -> None:
    reject(giving_up, 0, 3)
    giving_up.led.records.raise_start_to(2)
    giving_up.letters[0][3]()
    assert states(giving_up)[1:] == [(0, 3, "ARCHIVED")]
    assert giving_up.coordinator.written[1].delivery_complete_count == 2
    assert giving_up.led.records.start_offset == 4


@pytest.mark.parametrize(
    ("duration", "duration_ms"),
    [
        ("P2D", 172_800_000),
        ("PT3H", 10_800_000),
        ("PT4M", 240_000),
        ("PT1.5S", 1_500),
        ("P1DT2H3M4.25S", 93_784_250),
    ],
)
def test_group_that_resets_by_duration_begins_that_long_ago(
    duration: str, duration_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`share.auto.offset.reset=by_duration:...` (KIP-1113)."""
    now_ms, asked_ms = 1_700_000_000_000, []

    def offset_for(log: object, timestamp_ms: int) -> Any:  # noqa: ANN401 - a TimestampOffset
        asked_ms.append(timestamp_ms)
        return SimpleNamespace(offset=7) if len(asked_ms) == 1 else None

    monkeypatch.setattr("kwire.coordinators.share_partitions.led.offset_for_timestamp", offset_for)
    partition: Any = SimpleNamespace(log=None, log_start_offset=3, high_watermark=10)
    reset = f"by_duration:{duration}"
    settings = ShareDeliverySettings(SETTINGS.limits, reset, committed_only=False)
    assert begin_offset(ShareState(0, 1), partition, settings, now_ms) == 7
    assert begin_offset(ShareState(0, 1), partition, settings, now_ms) == 10, "no record since"
    assert asked_ms == [now_ms - duration_ms] * 2


@pytest.mark.parametrize(
    ("start_offset", "reset", "begins_at"),
    [(-1, "earliest", 3), (-1, "latest", 10), (2, "latest", 3), (5, "latest", 5)],
    ids=["earliest", "latest", "before the log", "stored"],
)
def test_group_begins_at_its_start_offset_or_where_its_reset_says(
    start_offset: int, reset: str, begins_at: int
) -> None:
    partition: Any = SimpleNamespace(log=None, log_start_offset=3, high_watermark=10)
    settings = ShareDeliverySettings(SETTINGS.limits, reset, committed_only=False)
    state = ShareState(0, 1, start_offset=start_offset)
    assert begin_offset(state, partition, settings, 0) == begins_at
