"""What a flush or a clean stop made durable survives a power cut that loses everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.codecs.control import ControlType, control_batch
from kwire.log import Log, LogManager, aborted_transactions, delete_records
from kwire.log.directory import checkpoints, log_dir
from kwire.log.error import CorruptFile
from kwire.log.origin import Origin
from kwire.log.upkeep.job import run_all
from tests.log.configs import DEFAULTS, log_config
from tests.log.crashing_disk import CrashingDisk, PowerCut

TOPIC_ID = b"0123456789abcdef"
NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 60_000
EACH_APPEND = log_config(index_interval_bytes=0, flush_messages=1)


@pytest.fixture
def disk(tmp_path: Path) -> CrashingDisk:
    (tmp_path / "data").mkdir()
    return CrashingDisk(tmp_path / "data")


def opened(disk: CrashingDisk, now_ms: int = NOW_MS) -> LogManager:
    manager = LogManager(
        [disk.root], defaults=DEFAULTS, files=disk, clock=lambda: now_ms, verify_transactions=False
    )
    manager.identify(1, "cluster")
    manager.load()
    return manager


def kill(manager: LogManager) -> None:
    for directory in manager.online_dirs:
        directory.unlock()


def power_cut(manager: LogManager, disk: CrashingDisk) -> LogManager:
    kill(manager)
    return opened(disk.left(disk.root.with_name("left")))


def append(log: Log, *, transactional: bool = False) -> None:
    entry = log.producers.entries.get(7)
    batch = build(
        [Record(0, NOW_MS, b"k", b"v", [])],
        producer_id=7,
        producer_epoch=0,
        base_sequence=entry.next_sequence if entry else 0,
        transactional=transactional,
    )
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)


def abort(log: Log) -> None:
    marker = control_batch(ControlType.ABORT, 0, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)


def test_indexes_of_a_segment_rolled_after_its_last_flush_are_durable(
    disk: CrashingDisk,
) -> None:
    """With `flush.messages` 1, every segment is one; only its log file was flushed before."""
    manager = opened(disk)
    log = manager.create("t", TOPIC_ID, 0, EACH_APPEND)
    append(log, transactional=True)
    abort(log)
    log.roll(NOW_MS)
    append(log)
    run_all(manager.maintain(LATER_MS))
    again = power_cut(manager, disk).logs["t", 0]
    assert again.log_end_offset == 3
    assert aborted_transactions(again, 0, 2) == [(7, 0)]
    assert again.segments.first.max_timestamp == NOW_MS


def test_flush_that_overtakes_an_earlier_one_is_complete(disk: CrashingDisk) -> None:
    """A job waits for its thread while `flush.messages` flushes: each flush is complete."""
    manager = opened(disk)
    log = manager.create("t", TOPIC_ID, 0)
    append(log)
    log.roll(NOW_MS)
    append(log)
    waiting = log.prepare_flush()
    assert waiting is not None
    log.flush()
    assert log.recovery_point == 2
    again = power_cut(manager, disk).logs["t", 0]
    assert (again.log_end_offset, again.topic_id) == (2, TOPIC_ID)
    assert again.producers.entries[7].next_sequence == 2


def test_folder_of_a_killed_process_is_durable_after_the_next_flush(disk: CrashingDisk) -> None:
    """The flush makes the folder, `partition.metadata` and the epochs durable too."""
    manager = opened(disk)
    append(manager.create("t", TOPIC_ID, 0))
    kill(manager)
    manager = opened(disk)
    manager.logs["t", 0].flush()
    again = power_cut(manager, disk).logs["t", 0]
    assert (again.log_end_offset, again.topic_id) == (1, TOPIC_ID)


def test_files_that_replace_lost_ones_are_durable_after_a_flush(disk: CrashingDisk) -> None:
    """The next flush makes them durable, as it does for a new partition."""
    manager = opened(disk)
    log = manager.create("t", TOPIC_ID, 0)
    append(log)
    log.flush()
    run_all(manager.maintain(LATER_MS))
    kill(manager)
    for path in list((disk.root / "t-0").iterdir()):
        disk.remove(path)
    manager = opened(disk)
    log = manager.logs["t", 0]
    log.adopt_topic_id(TOPIC_ID)
    append(log)
    append(log)
    log.flush()
    again = power_cut(manager, disk).logs["t", 0]
    assert (again.log_end_offset, again.topic_id) == (2, TOPIC_ID)


def test_clean_stop_makes_producers_and_indexes_durable(disk: CrashingDisk) -> None:
    manager = opened(disk)
    log = manager.create("t", TOPIC_ID, 0, EACH_APPEND)
    append(log, transactional=True)
    abort(log)
    append(log)
    manager.close()
    again = power_cut(manager, disk).logs["t", 0]
    assert again.log_end_offset == 3
    assert again.producers.entries[7].next_sequence == 2
    assert aborted_transactions(again, 0, 2) == [(7, 0)]
    assert again.segments.first.max_timestamp == NOW_MS


@pytest.mark.slow
def test_stop_with_a_clean_marker_has_durable_checkpoints(
    tmp_path: Path,
) -> None:
    """The power fails at each step of a stop: if the marker survives, so do the checkpoints."""
    marked = steps = 0
    while True:
        root = tmp_path / str(steps)
        root.mkdir()
        disk = CrashingDisk(root)
        manager = opened(disk)
        log = manager.create("t", TOPIC_ID, 0)
        for _ in range(3):
            append(log)
        delete_records(log, 2, 3)
        log.first_dirty_offset = 1
        disk.cut_after(steps)
        try:
            manager.close()
        except PowerCut:
            kill(manager)
        else:
            break
        steps += 1
        left = disk.left(root.with_name("left" + root.name))
        if not (left.root / log_dir.CLEAN_SHUTDOWN).exists():
            continue
        marked += 1
        again = opened(left)
        log = again.logs["t", 0]
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 3, 3), steps
        assert log.first_dirty_offset == 1
        assert again.high_watermarks == {("t", 0): 3}
        kill(again)
    assert steps > 10
    assert marked == 0, "nothing comes after the marker"


def test_checkpoint_cut_within_its_last_number_is_corrupt() -> None:
    """Otherwise `0 12` would be read as `0 1`."""
    whole = checkpoints.encode_epochs([(0, 0), (3, 12)])
    for size in range(1, len(whole)):
        with pytest.raises(CorruptFile):
            checkpoints.decode_epochs(whole[:size])
