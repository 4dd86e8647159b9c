"""The cleaner chooses logs and offsets by Kafka's rules, and survives failed rounds."""

from __future__ import annotations

import errno
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import (
    Compression,
    Record,
    build,
    control_batch,
    iter_batches,
    records,
)
from kwire.codecs.control import ControlType
from kwire.log import Log, LogManager, Origin, delete_expired_segments, truncate_to
from kwire.log.compaction.cleanable import examine
from kwire.log.compaction.key_scan import BatchKeys, short_key
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.round import CleaningRound, Corrupt
from kwire.log.compaction.settings import CleanerSettings
from kwire.log.compaction.source import Throttle
from kwire.log.compaction.task import Answer, CleaningTask, PassFailed
from kwire.log.compaction.worker_process import InThread, WorkerProcess
from kwire.log.directory.files import Files
from kwire.log.upkeep.job import run_all
from tests.log.configs import log_config
from tests.log.failing_disk import FailingDisk

NOW_MS = 1_700_000_000_000
CONFIG = log_config(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1000,
    index_interval_bytes=200,
    file_delete_delay_ms=0,
)
SETTINGS = CleanerSettings(log_cleaner_backoff_ms=1000)
OpenManager = Callable[[], LogManager]


@pytest.fixture
def open_manager(tmp_path: Path) -> Iterator[OpenManager]:
    opened: list[LogManager] = []

    def open_it() -> LogManager:
        manager = LogManager([tmp_path / "data"], defaults=CONFIG, clock=lambda: NOW_MS)
        manager.load()
        manager.cleaner.start_worker = lambda: InThread(Files())
        opened.append(manager)
        return manager

    yield open_it
    for manager in opened:
        manager.close()


def fill(log: Log, batches: int = 40, keys: int = 5, stamp: int = NOW_MS) -> None:
    for number in range(batches):
        made = [Record(i, stamp, b"k%d" % ((number + i) % keys), b"v" * 50) for i in range(3)]
        log.append(build(made), leader_epoch=0, now_ms=NOW_MS)
    log.flush()


def end_of(log: Log) -> int:
    return log.log_end_offset


def grab(manager: LogManager, now_ms: int = NOW_MS) -> CleaningRound | None:
    return manager.cleaner.grab(now_ms, SETTINGS, end_of)


def clean(
    manager: LogManager, now_ms: int = NOW_MS, settings: CleanerSettings = SETTINGS
) -> CleaningRound:
    found = manager.cleaner.grab(now_ms, settings, end_of)
    assert found is not None
    for job in found.jobs():
        run_all([job])
    manager.cleaner.finished(found, now_ms, settings)
    return found


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, key) of all records."""
    found = []
    for segment in log.segments:
        data = segment.path.read_bytes()
        for at, header in iter_batches(data):
            if not header.is_control:
                found += [(record.offset, record.key) for record in records(data, at)]
    return found


def test_cleaning_a_log_writes_the_checkpoint(
    open_manager: OpenManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    active = log.segments.active.base_offset
    held = sum(s.size_bytes for s in log.segments if s.base_offset < active)
    with caplog.at_level("INFO"):
        round_ = clean(manager)
    left = sum(s.size_bytes for s in log.segments if s.base_offset < active)
    assert f"5 keys; {2 * held} bytes read, {left} written" in caplog.text
    assert round_.done_to == log.first_dirty_offset == active
    below = [key for offset, key in contents(log) if offset < active]
    assert len(below) == len(set(below)) == 5
    run_all(manager.maintain(NOW_MS, end_of))
    written = (tmp_path / "data" / "cleaner-offset-checkpoint").read_text()
    assert written == f"0\n1\nt 0 {active}\n"
    assert grab(manager) is None, "nothing is dirty any more"
    manager.close()
    again = open_manager()
    assert again.logs["t", 0].first_dirty_offset == active
    again.delete("t", 0)
    run_all(again.maintain(NOW_MS, end_of))
    assert (tmp_path / "data" / "cleaner-offset-checkpoint").read_text() == "0\n0\n"


def test_cleaner_takes_the_dirtiest_log_first_and_each_log_once(open_manager: OpenManager) -> None:
    manager = open_manager()
    logs = [manager.create("t", b"1" * 16, number) for number in range(3)]
    fill(logs[0])
    clean(manager)
    fill(logs[0], batches=60)
    fill(logs[1], batches=20)
    first, second = grab(manager), grab(manager)
    assert first is not None
    assert second is not None
    assert (first.log, second.log) == (logs[1], logs[0])
    assert grab(manager) is None


def test_cleanable_part_ends_by_kafkas_rules(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log, stamp=NOW_MS - 5000)
    old = log.log_end_offset
    fill(log)
    bases = [segment.base_offset for segment in log.segments]

    def bound(high_watermark: int = log.log_end_offset) -> int:
        return examine(log, high_watermark, NOW_MS).upper_bound

    assert bound() == bases[-1]
    assert examine(log, log.log_end_offset, NOW_MS - 1000).upper_bound == bases[-1], "of tomorrow"
    assert bound(bases[3] + 1) == bases[3]
    log.update_config(replace(CONFIG, min_compaction_lag_ms=1000))
    assert bound() == max(base for base in bases if base <= old)
    log.update_config(CONFIG)
    log.first_unstable_offset = bases[2]
    assert bound() == bases[2]
    log.first_unstable_offset = None
    log.durability.recovery_point = bases[1]
    assert bound() == bases[1]


def test_log_is_due_for_cleaning_by_dirty_ratio_and_lag(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    assert grab(manager) is None, "an empty log"
    fill(log, batches=40, stamp=NOW_MS - 5000)
    clean(manager)
    fill(log, batches=8, stamp=NOW_MS - 5000)
    part = examine(log, end_of(log), NOW_MS)
    assert 0 < part.dirty_ratio < 1
    log.update_config(replace(CONFIG, min_cleanable_dirty_ratio=part.dirty_ratio))
    assert not examine(log, end_of(log), NOW_MS).is_due, "the ratio must be more"
    log.update_config(replace(CONFIG, min_cleanable_dirty_ratio=part.dirty_ratio - 0.01))
    assert examine(log, end_of(log), NOW_MS).is_due
    never = replace(CONFIG, min_cleanable_dirty_ratio=1.0)
    log.update_config(replace(never, max_compaction_lag_ms=5000))
    assert not examine(log, end_of(log), NOW_MS).is_due
    log.update_config(replace(never, max_compaction_lag_ms=4999))
    assert examine(log, end_of(log), NOW_MS).is_due
    assert log.config.segment_ms_max == 4999, "or the last segment would never be cleaned"


@pytest.mark.parametrize("policy", [{"compact"}, {"compact", "delete"}])
@pytest.mark.parametrize("checkpoint", [-5, 10**6])
def test_cleaner_restarts_at_the_log_start_for_an_invalid_checkpoint(
    open_manager: OpenManager, checkpoint: int, policy: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says so, unless retention may have deleted the cleaned part."""
    manager = open_manager()
    config = replace(CONFIG, cleanup_policy=frozenset(policy))
    log = manager.create("t", b"1" * 16, 0, config)
    fill(log)
    log.first_dirty_offset = checkpoint
    assert examine(log, end_of(log), NOW_MS).first_dirty == 0
    assert log.first_dirty_offset == 0
    is_told = "which it does not hold" in caplog.text
    assert is_told == (checkpoint > 0 or "delete" not in policy)


def test_truncated_log_is_dirty_from_the_truncation_on(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    clean(manager)
    last = contents(log)[3][0]
    truncate_to(log, last, NOW_MS)
    assert log.first_dirty_offset == log.log_end_offset


def test_cleaner_with_little_memory_needs_more_passes_for_the_same_result(
    open_manager: OpenManager,
) -> None:
    manager = open_manager()
    log, same = (manager.create("t", b"1" * 16, number) for number in range(2))
    for each in (log, same):
        fill(each, batches=300, keys=97)
    settings = replace(SETTINGS, log_cleaner_dedupe_buffer_size=4000)
    seen: list[CleaningTask] = []

    class Counting(InThread):
        def begin(self, task: CleaningTask) -> None:
            seen.append(task)
            super().begin(task)

    manager.cleaner.start_worker = lambda: Counting(Files())
    clean(manager, settings=settings)
    passes = len(seen)
    assert passes > 2
    assert len({task.end_offset for task in seen}) == passes
    manager.cleaner.stop()
    clean(manager)
    assert contents(log) == contents(same)


def test_offset_map_keeps_to_its_memory_limit() -> None:
    limit = 20_000_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    offsets = OffsetMap(10**9, limit)
    base = 10**9
    while True:
        base -= 100
        keys = [b"%d" % number for number in range(base, base + 100)]
        batch = BatchKeys(keys, range(base, base + 100), has_nulls=False)
        if not offsets.has_room_for(100):
            break
        offsets.add(batch, base, 0)
        del keys, batch
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert limit / 3 < peak <= limit * 1.05
    assert len(offsets) > limit / 200


def test_long_key_is_not_confused_with_its_hash() -> None:
    key = b"x" * 100
    assert len(short_key(key)) == 24
    assert short_key(short_key(key)) != short_key(key), (
        "a key that looks like a hash is hashed again"
    )
    assert short_key(b"x" * 23) == b"x" * 23


class Scripted(InThread):
    """Gives the answers of the test first, then those of the real worker."""

    def __init__(self, *answers: Answer | OSError) -> None:
        super().__init__(Files())
        self.script = list(answers)
        self.stopped = False

    def answer(self) -> Answer:
        if not self.script:
            return super().answer()
        answer = self.script.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    "failure",
    [
        ChildProcessError("the cleaning process ended with -9"),
        PassFailed(errno.ENOSPC, "no room"),
        PassFailed(errno.ENOENT, "gone"),
    ],
)
def test_cleaner_retries_after_passing_errors_with_longer_pauses(
    open_manager: OpenManager, failure: Answer | OSError
) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    worker = Scripted(failure)
    manager.cleaner.start_worker = lambda: worker
    assert clean(manager).failure is not None
    assert worker.stopped
    assert not log.offline
    assert grab(manager, NOW_MS + 999) is None
    worker.script = [failure]
    assert clean(manager, NOW_MS + 1000).failure is not None
    assert grab(manager, NOW_MS + 2999) is None, "the pause doubles"
    assert clean(manager, NOW_MS + 3000).done_to is not None


def test_cleaner_leaves_a_corrupt_log_alone(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    before = contents(log)
    with open(log.segments.first.path, "r+b") as file:
        file.seek(100)
        file.write(b"?")
    assert clean(manager).failure is not None
    assert grab(manager, NOW_MS + 10**12) is None
    assert not log.offline
    assert len(contents(log)) == len(before)
    assert not list(log.dir.glob("*.cleaned"))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("cleaned_before", [False, True])
def test_cleaner_gives_up_at_a_record_above_the_limit_in_a_compressed_batch(
    open_manager: OpenManager, codec: Compression, cleaned_before: bool
) -> None:
    """As in Kafka, also if the batch itself would stay as it is, or all of it would go."""
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    large = build([Record(0, NOW_MS, b"large", b"x" * 500)], compression=codec)
    log.append(large, leader_epoch=0, now_ms=NOW_MS)
    fill(log)
    if cleaned_before:
        assert clean(manager).failure is None
        fill(log)
    log.update_config(replace(log.config, max_decompressed_message_bytes=300))
    failure = clean(manager).failure
    if not codec:
        assert failure is None
        return
    assert isinstance(failure, Corrupt)
    log.update_config(replace(log.config, max_decompressed_message_bytes=10_000))
    assert grab(manager, NOW_MS + 10**12) is None, "it is not cleaned again before a restart"


def test_disk_failure_in_a_worker_takes_the_directory_offline(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    manager.cleaner.start_worker = lambda: Scripted(PassFailed(errno.EIO, "made up"))
    clean(manager)
    assert log.offline
    assert not manager.logs


@pytest.mark.parametrize("what", ["truncate", "delete", "retention"])
@pytest.mark.parametrize("after_jobs", range(1, 8))
def test_cleaner_drops_a_round_whose_log_was_truncated(
    open_manager: OpenManager, what: str, after_jobs: int
) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    round_ = grab(manager)
    assert round_ is not None
    for number, job in enumerate(round_.jobs(), 1):
        run_all([job])
        if number == after_jobs:
            if what == "truncate":
                truncate_to(log, 9, NOW_MS)
            elif what == "delete":
                manager.delete("t", 0)
            else:
                log.increment_log_start_offset(60)
                assert delete_expired_segments(log, NOW_MS, log.log_end_offset)
    manager.cleaner.finished(round_, NOW_MS, SETTINGS)
    assert round_.failure is None
    if what == "delete":
        assert not manager.logs
        return
    assert not log.offline
    assert not list(log.dir.glob("*.swap"))
    if what == "truncate":
        assert round_.done_to is None
        assert log.log_end_offset == 9
        return
    keys = {key for offset, key in contents(log) if offset >= log.log_start_offset}
    assert keys == {b"k0", b"k1", b"k2", b"k3", b"k4"}


def test_cleaner_removes_aborted_records_and_old_markers(open_manager: OpenManager) -> None:
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    log.producers.verify_transactions = False
    for number, kind in enumerate((ControlType.ABORT, ControlType.COMMIT)):
        made = [Record(0, NOW_MS, b"%d" % number, b"v")]
        batch = build(
            made, producer_id=number, producer_epoch=0, base_sequence=0, transactional=True
        )
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
        marker = control_batch(kind, 0, producer_id=number, producer_epoch=0, timestamp=NOW_MS)
        log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    fill(log)
    log.high_watermark_advanced(log.log_end_offset)
    clean(manager)
    keys = [key for _, key in contents(log)]
    assert b"0" not in keys
    assert keys.count(b"1") == 1


def test_cleaner_worker_process_and_thread_give_the_same_result(open_manager: OpenManager) -> None:
    manager = open_manager()
    logs = [manager.create("t", b"1" * 16, number) for number in range(2)]
    for log in logs:
        fill(log)
    clean(manager)
    manager.cleaner.stop()
    manager.cleaner.start_worker = WorkerProcess
    round_ = clean(manager)
    assert isinstance(round_.worker, WorkerProcess)
    assert contents(logs[0]) == contents(logs[1])
    assert manager.cleaner.take_idle(NOW_MS) == []
    [idle] = manager.cleaner.take_idle(NOW_MS + 60_000)
    idle.stop()


def test_files_of_a_killed_worker_are_removed_before_the_next_round(
    open_manager: OpenManager,
) -> None:
    """Otherwise the recovery after a crash in a later swap would lose segments."""
    manager = open_manager()
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    second = list(log.segments)[1].base_offset
    stale = log.dir / f"{second:020d}.log.cleaned"
    stale.write_bytes(b"")
    round_ = grab(manager)
    assert round_ is not None
    for number, job in enumerate(round_.jobs()):
        run_all([job])
        if number == 1:
            assert not stale.exists()
    manager.cleaner.finished(round_, NOW_MS, SETTINGS)
    assert round_.done_to is not None


def test_stop_during_a_cleaning_loses_no_key(open_manager: OpenManager, tmp_path: Path) -> None:
    for after_jobs in range(1, 6):
        manager = open_manager()
        key = "t", after_jobs
        log = manager.create("t", b"1" * 16, after_jobs)
        fill(log)
        before = {key for _, key in contents(log)}
        round_ = grab(manager)
        assert round_ is not None
        jobs = round_.jobs()
        for _ in range(after_jobs):
            run_all([next(jobs)])
        manager.close()
        jobs.close()
        folder = tmp_path / "data" / f"t-{after_jobs}"
        assert not list(folder.glob("*.swap"))
        again = open_manager()
        assert {key for _, key in contents(again.logs[key])} == before
        again.close()


def test_cleaner_keeps_to_its_io_rate() -> None:
    """`log.cleaner.io.max.bytes.per.second`."""
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    throttle = Throttle(1000.0, lambda: now_s, sleep)
    for _ in range(100):
        throttle.spend(50)
    assert now_s == pytest.approx(5, abs=0.05)
    unlimited = Throttle(sys.float_info.max, lambda: now_s, sleep)
    unlimited.spend(1 << 40)
    assert now_s == pytest.approx(5, abs=0.05)


@pytest.mark.parametrize("word", [".cleaned", ".swap", ".log", ".index"])
@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_disk_failure_during_a_swap_takes_the_directory_offline(
    tmp_path: Path, word: str, call: str
) -> None:
    disk = FailingDisk("/t-0" if call == "fsync" else word, call)
    manager = LogManager([tmp_path / "data"], defaults=CONFIG, clock=lambda: NOW_MS, files=disk)
    manager.load()
    manager.cleaner.start_worker = lambda: InThread(Files())
    log = manager.create("t", b"1" * 16, 0)
    fill(log)
    before = {key for _, key in contents(log)}
    end = log.log_end_offset
    round_ = grab(manager)
    assert round_ is not None
    disk.broken = True
    for job in round_.jobs():
        run_all([job])
    manager.cleaner.finished(round_, NOW_MS, SETTINGS)
    assert log.offline
    assert not manager.logs
    disk.broken = False
    manager.close()
    again = LogManager([tmp_path / "data"], defaults=CONFIG, clock=lambda: NOW_MS)
    again.load()
    assert {key for _, key in contents(again.logs["t", 0])} == before
    assert again.logs["t", 0].log_end_offset == end
    again.close()
