"""A truncation writes the lowered recovery point before anything else is appended."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, LogManager
from kwire.log.directory import checkpoints
from kwire.log.directory.files import Files
from kwire.log.upkeep.job import Job, run_all
from tests.log.configs import log_config
from tests.log.crashing_disk import CrashingDisk, PowerCut
from tests.log.failing_disk import FailingDisk

TOPIC_ID = b"0123456789abcdef"
NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 60_000
CONFIG = log_config(segment_bytes=400, index_interval_bytes=0)
FLUSHED, KEPT, WRITTEN = 12, 2, 14


@pytest.fixture
def disk(tmp_path: Path) -> CrashingDisk:
    (tmp_path / "data").mkdir()
    return CrashingDisk(tmp_path / "data")


def opened(disk: CrashingDisk) -> LogManager:
    manager = LogManager([disk.root], defaults=CONFIG, files=disk, clock=lambda: NOW_MS)
    manager.identify(1, "cluster")
    manager.load()
    return manager


def append(log: Log, count: int, by: str) -> None:
    for _ in range(count):
        record = Record(0, NOW_MS, None, f"{by}{log.log_end_offset}".encode(), [])
        log.append(build([record]), leader_epoch=0, now_ms=NOW_MS)


def values(log: Log) -> list[str]:
    found: list[str] = []
    while region := log.read(
        len(found), 1 << 20, max_offset=log.log_end_offset, min_one_batch=True
    ):
        data = region.read()
        for position, header in iter_batches(data):
            assert header.base_offset == len(found), "no hole"
            found += [(record.value or b"").decode() for record in records(data, position)]
    return found


def checkpoint(root: Path) -> int:
    return checkpoints.read_offsets(Files(), root / checkpoints.RECOVERY_POINTS)["t", 0]


@pytest.fixture
def flushed(disk: CrashingDisk) -> LogManager:
    """A log of several segments whose recovery point is at its end, also on disk."""
    manager = opened(disk)
    append(manager.create("t", TOPIC_ID, 0, CONFIG), FLUSHED, "old")
    manager.logs["t", 0].flush()
    run_all(manager.maintain(LATER_MS))
    assert checkpoint(disk.root) == FLUSHED
    return manager


def truncate(manager: LogManager) -> list[Job]:
    """Truncate the log; the jobs that this needed."""
    done = []
    for job in manager.truncate({("t", 0): KEPT}, NOW_MS):
        run_all([job])
        done.append(job)
    return done


def test_lowered_recovery_point_is_written_by_the_truncation(
    flushed: LogManager, disk: CrashingDisk
) -> None:
    truncate(flushed)
    assert checkpoint(disk.root) == KEPT
    assert truncate(flushed) == [], "nothing more to cut"


def test_older_checkpoint_does_not_overwrite_the_lowered_one(
    flushed: LogManager, disk: CrashingDisk
) -> None:
    stale = flushed.maintain(LATER_MS + 60_000)
    truncate(flushed)
    run_all(stale)
    assert checkpoint(disk.root) == KEPT


def left(manager: LogManager, disk: CrashingDisk, seed: int) -> list[str]:
    """What a power cut leaves of the log now."""
    for directory in manager.online_dirs:
        directory.unlock()
    found = opened(disk.left(disk.root.with_name("left"), random.Random(seed)))
    return values(found.logs["t", 0])


@pytest.mark.parametrize("seed", range(40))
def test_truncated_batches_do_not_return_after_a_power_cut(
    seed: int, flushed: LogManager, disk: CrashingDisk
) -> None:
    """None of the later records was flushed, so recovery must check all of them."""
    truncate(flushed)
    append(flushed.logs["t", 0], WRITTEN, "new")
    again = left(flushed, disk, seed)
    whole = [f"{'old' if at < KEPT else 'new'}{at}" for at in range(KEPT + WRITTEN)]
    assert len(again) >= KEPT
    assert again == whole[: len(again)]


@pytest.mark.parametrize("cut_after", range(1, 12))
@pytest.mark.parametrize("seed", range(5))
def test_power_cut_during_a_truncation_keeps_a_prefix_of_the_log(
    cut_after: int, seed: int, flushed: LogManager, disk: CrashingDisk
) -> None:
    disk.cut_after(cut_after)
    try:
        truncate(flushed)
    except PowerCut:
        disk.cut_after(None)
    disk.cut_after(None)
    again = left(flushed, disk, seed)
    assert again == [f"old{at}" for at in range(len(again))]
    assert len(again) >= KEPT


def test_failed_flush_of_a_truncation_takes_the_directory_offline(tmp_path: Path) -> None:
    """The other directory stays online. A log that is not truncated is not flushed."""
    disk = FailingDisk("/a/t-", "fsync")
    manager = LogManager(
        [tmp_path / "a", tmp_path / "b"], defaults=CONFIG, files=disk, clock=lambda: NOW_MS
    )
    manager.load()
    logs = [manager.create("t", TOPIC_ID, number) for number in range(2)]
    for log in logs:
        append(log, 5, "any")
    disk.broken = True
    cut, whole = logs if logs[0].dir.parent.name == "a" else reversed(logs)
    ends = {(log.topic, log.partition): 5 if log is whole else 2 for log in logs}
    for job in manager.truncate(ends, NOW_MS):
        assert repr(whole) not in repr(job)
        run_all([job])
    assert [path.name for path in manager.offline_dirs] == ["a"]
    assert cut.offline
    assert not whole.offline
    manager.close()


# -- a full disk


def on_failing_disk(root: Path) -> tuple[LogManager, FailingDisk]:
    """A log of several segments, of a producer's batches in two leader epochs."""
    disk = FailingDisk("/")
    manager = LogManager([root], defaults=CONFIG, files=disk, clock=lambda: NOW_MS)
    manager.load()
    log = manager.create("t", TOPIC_ID, 0, CONFIG)
    for number in range(FLUSHED):
        record = Record(0, NOW_MS, None, f"old{number}".encode(), [])
        batch = build([record], producer_id=7, producer_epoch=0, base_sequence=number)
        log.append(batch, leader_epoch=number // 4, now_ms=NOW_MS)
    log.flush()
    run_all(manager.maintain(LATER_MS))
    return manager, disk


def test_truncation_on_a_full_disk_is_refused_and_nothing_is_cut(tmp_path: Path) -> None:
    manager, disk = on_failing_disk(tmp_path)
    log = manager.logs["t", 0]
    before = values(log)
    disk.calls, disk.error, disk.broken = ("pwrite", "write"), OSError(errno.ENOSPC, "full"), True
    with pytest.raises(LogError) as caught:
        truncate(manager)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (values(log), log.offline, manager.offline_dirs) == (before, False, {})
    disk.broken = False
    truncate(manager)
    assert values(log) == before[:KEPT]
    manager.close()


@pytest.mark.parametrize("end", ["close", "crash"])
def test_truncation_cuts_the_log_although_the_disk_fills_meanwhile(
    tmp_path: Path, end: str
) -> None:
    """A full disk once took the whole directory offline."""
    manager, disk = on_failing_disk(tmp_path)
    log = manager.logs["t", 0]
    before = values(log)
    disk.calls, disk.error = ("pwrite", "write"), OSError(errno.ENOSPC, "full")
    for job in manager.truncate({("t", 0): KEPT}, NOW_MS):
        run_all([job])
        disk.broken = True
    assert (values(log), log.offline, manager.offline_dirs) == (before[:KEPT], False, {})
    assert log.epochs.epochs == [0]
    disk.broken = False
    if end == "close":
        manager.close()
    else:
        manager.dirs.unlock()
    again = LogManager([tmp_path], defaults=CONFIG, clock=lambda: NOW_MS)
    again.load()
    log = again.logs["t", 0]
    assert (values(log), log.epochs.epochs) == (before[:KEPT], [0])
    batch = build(
        [Record(0, NOW_MS, None, b"new", [])], producer_id=7, producer_epoch=0, base_sequence=KEPT
    )
    assert log.append(batch, leader_epoch=3, now_ms=NOW_MS).first_offset == KEPT
    again.close()
