"""The cleaner's schedule: which log is next, pauses after failures, workers, and the I/O rate."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.log import Log, LogManager
from kwire.log.compaction.cleaner import Cleaner
from kwire.log.compaction.round import CleaningRound, Corrupt
from kwire.log.compaction.settings import CleanerSettings
from kwire.log.compaction.source import Throttle
from kwire.log.compaction.task import Answer, CleaningTask
from tests.log.configs import log_config
from tests.log.failing_disk import FailingDisk

NOW_MS = 1_700_000_000_000
CONFIG = log_config(cleanup_policy=frozenset({"compact"}), segment_bytes=300)
PASSING = OSError(errno.ENOSPC, "made up")


class Worker:
    """A worker that gets no requests."""

    def __init__(self) -> None:
        self.stops = 0

    def begin(self, task: CleaningTask) -> None:
        raise AssertionError("nothing is to be done")

    def answer(self) -> Answer:
        raise AssertionError("nothing is to be done")

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk("/t-0/", "pread")


@pytest.fixture
def manager(tmp_path: Path, disk: FailingDisk) -> Iterator[LogManager]:
    made = LogManager([tmp_path], defaults=CONFIG, clock=lambda: NOW_MS, files=disk)
    made.load()
    yield made
    made.close()


def filthy(manager: LogManager, number: int = 0, topic_id: bytes = b"1" * 16) -> Log:
    log = manager.create("t", topic_id, number)
    for _ in range(4):
        batch = build([Record(0, NOW_MS, b"k", bytes(200), [])])
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    return log


class Turns:
    """Takes the cleaner's rounds and ends them as the test says, without cleaning."""

    def __init__(self, cleaner: Cleaner, backoff_ms: int = 1000) -> None:
        self.cleaner = cleaner
        self.settings = CleanerSettings(log_cleaner_backoff_ms=backoff_ms)

    def grab(self, now_ms: int = NOW_MS) -> CleaningRound | None:
        return self.cleaner.grab(now_ms, self.settings, lambda log: log.log_end_offset)

    def end(
        self,
        done: CleaningRound | None,
        now_ms: int = NOW_MS,
        *,
        done_to: int | None = None,
        failure: OSError | Corrupt | None = None,
        worker: Worker | None = None,
    ) -> None:
        assert done is not None
        done.done_to, done.failure, done.worker = done_to, failure, worker or done.worker
        self.cleaner.finished(done, now_ms, self.settings)

    def pause_after_failure(self, now_ms: int) -> int:
        """The pause of a log that fails at `now_ms`, found by bisection."""
        self.end(self.grab(now_ms), now_ms, failure=PASSING)
        low, high = 0, 1 << 40
        while low < high:
            middle = (low + high) // 2
            again = self.grab(now_ms + middle)
            if again is None:
                low = middle + 1
            else:
                high = middle
                self.end(again, now_ms + middle)  # dropped: nothing is remembered of it
        return low


@pytest.mark.parametrize(
    ("backoff_ms", "pauses"),
    [
        (0, [0, 0, 0]),
        (1, [1, 2, 4, 8]),
        (1_000_000, [1_000_000, 2_000_000, 3_600_000, 3_600_000]),
        (4_000_000, [3_600_000, 3_600_000]),
    ],
)
def test_retry_pauses_of_the_cleaner_double_up_to_an_hour(
    manager: LogManager, backoff_ms: int, pauses: list[int]
) -> None:
    filthy(manager)
    turns = Turns(manager.cleaner, backoff_ms)
    now_ms = NOW_MS
    for pause_ms in pauses:
        assert turns.pause_after_failure(now_ms) == pause_ms
        now_ms += pause_ms
    turns.end(turns.grab(now_ms), now_ms, done_to=0)
    assert turns.pause_after_failure(now_ms) == pauses[0], "it has gone well meanwhile"


def test_retry_pauses_of_the_cleaner_are_per_log(manager: LogManager) -> None:
    logs = [filthy(manager, number) for number in range(2)]
    turns = Turns(manager.cleaner)
    turns.end(turns.grab(), failure=PASSING)
    other = turns.grab()
    assert other is not None
    assert other.log is logs[1]
    assert turns.grab() is None
    turns.end(other)
    assert other.log.first_dirty_offset is None
    other = turns.grab()
    assert other is not None
    assert other.log is logs[1]


def test_log_created_after_a_deletion_does_not_inherit_the_retry_pause(manager: LogManager) -> None:
    turns = Turns(manager.cleaner)
    failures: list[OSError | Corrupt] = [PASSING, Corrupt("made up"), PASSING]
    for number, failure in enumerate(failures):
        filthy(manager, topic_id=b"%d" % number * 16)
        turns.end(turns.grab(), failure=failure)
        assert turns.grab() is None
        manager.delete("t", 0)
    filthy(manager, topic_id=b"9" * 16)
    assert turns.pause_after_failure(NOW_MS) == 1000


@pytest.mark.parametrize("failure", [PASSING, Corrupt("made up"), OSError(errno.EIO, "made up")])
def test_failed_round_of_a_deleted_log_is_ignored(
    manager: LogManager, failure: OSError | Corrupt
) -> None:
    filthy(manager)
    turns = Turns(manager.cleaner)
    before = turns.grab()
    manager.delete("t", 0)
    filthy(manager, topic_id=b"2" * 16)
    turns.end(before, failure=failure)
    assert not manager.offline_dirs
    assert turns.grab() is not None


def test_checkpoint_changes_only_after_a_finished_round(manager: LogManager) -> None:
    log = filthy(manager)
    turns = Turns(manager.cleaner)
    for failure, done_to in ((PASSING, None), (None, None), (None, 0)):
        assert not manager.maintenance.cleaner_offsets_changed
        turns.end(turns.grab(NOW_MS + 1000), failure=failure, done_to=done_to)
        assert log.first_dirty_offset == done_to
    assert manager.maintenance.cleaner_offsets_changed


def test_unreadable_log_is_skipped_and_a_failed_disk_goes_offline(
    manager: LogManager, disk: FailingDisk
) -> None:
    """A failed disk takes all its logs offline. After other errors, the other logs are cleaned."""
    logs = [filthy(manager, number) for number in (1, 0)]
    late = log_config(
        cleanup_policy=CONFIG.cleanup_policy,
        segment_bytes=300,
        max_compaction_lag_ms=1,
        min_cleanable_dirty_ratio=1.0,
    )
    for log in logs:
        log.update_config(late)
        for segment in log.segments:
            segment.first_timestamp = None
    turns = Turns(manager.cleaner)
    disk.broken, disk.error = True, OSError(errno.EMFILE, "made up")
    found = turns.grab(NOW_MS + 2)
    assert found is not None
    assert found.log is logs[0]
    assert turns.grab(NOW_MS + 2) is None
    assert not manager.offline_dirs
    turns.end(found)
    disk.error = OSError(errno.EIO, "made up")
    assert turns.grab(NOW_MS + 2) is None, "the first one was looked at before the disk failed"
    assert manager.offline_dirs


def test_idle_cleaner_worker_is_kept_for_a_minute(manager: LogManager) -> None:
    """The worker that was used last is taken first; one that failed is ended."""
    cleaner, workers = manager.cleaner, [Worker() for _ in range(4)]
    for number in range(3):
        filthy(manager, number)
    turns = Turns(cleaner)
    rounds = [turns.grab() for _ in range(3)]
    assert [each.worker for each in rounds if each is not None] == [None] * 3
    for number, done in enumerate(rounds[:2]):
        turns.end(done, NOW_MS + number, done_to=0, worker=workers[number])
    turns.end(rounds[2], failure=PASSING, worker=workers[2])
    assert [worker.stops for worker in workers] == [0, 0, 1, 0]
    assert cleaner.take_idle(NOW_MS + 59_999) == []
    again = turns.grab()
    assert again is not None
    assert again.worker is workers[1]
    turns.end(again, NOW_MS + 2, done_to=0)
    assert cleaner.take_idle(NOW_MS + 60_000) == [workers[0]]
    assert cleaner.take_idle(NOW_MS + 60_001) == []
    assert cleaner.take_idle(NOW_MS + 60_002) == [workers[1]]
    assert cleaner.take_idle(1 << 60) == []


def test_stop_ends_all_cleaner_workers(manager: LogManager) -> None:
    cleaner, workers = manager.cleaner, [Worker() for _ in range(2)]
    for number in range(3):
        filthy(manager, number)
    turns = Turns(cleaner)
    rounds = [turns.grab() for _ in range(3)]
    turns.end(rounds[0], done_to=0, worker=workers[0])
    cancelled: list[int] = []
    swapping, waiting = rounds[1:]
    assert swapping is not None
    assert waiting is not None
    swapping.worker = workers[1]
    swapping.log.cancel_swap = lambda: cancelled.append(1)
    cleaner.stop()
    swapping.log.cancel_swap = None
    assert cancelled == [1]
    assert [worker.stops for worker in workers] == [1, 1]
    assert cleaner.take_idle(1 << 60) == []


@pytest.mark.parametrize(
    ("rate", "script", "pauses"),
    [
        # (seconds that pass before, bytes) of each; how long each one waits then
        (1024.0, [(0, 8), (0, 8), (0, 8)], [0, 1 / 64, 0]),
        (1024.0, [(0, 1024), (0, 512), (0, 0)], [1, 0.5, 0]),
        (1024.0, [(10, 1024), (10, 512), (0.25, 512)], [1, 0.5, 0.5]),
        (1024.0, [(0, 8), (1 / 256, 8), (0, 8)], [0, 3 / 256, 0]),
        (0.5, [(0, 1)], [2]),
        (0.0, [(0, 0), (0, 1)], [0, 1 / 1e-300]),
        (sys.float_info.max, [(0, 1 << 60), (0, 1 << 60)], [0, 0]),
    ],
)
def test_throttle_pauses_until_the_rate_is_kept(
    rate: float, script: list[tuple[float, int]], pauses: list[float]
) -> None:
    """The rate counts from when the cleaner last was slower. Very short pauses are skipped."""
    now_s, began_s = 4096.0, 4096.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(seconds)
        now_s += seconds

    clock: Callable[[], float] = lambda: now_s  # noqa: E731 - reads the time at each call
    throttle = Throttle(rate, clock, sleep)
    sleeps = []
    for passed_s, size_bytes in script:
        now_s += passed_s
        throttle.spend(size_bytes)
        sleeps.append(slept.pop() if slept else 0)
    assert sleeps == pauses
    assert now_s >= began_s
