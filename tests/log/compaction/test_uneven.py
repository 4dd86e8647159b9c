"""The cleaner with segments and batches of unequal sizes and formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import (
    ControlType,
    Record,
    build,
    control_batch,
    iter_batches,
    records,
)
from kwire.log import LogManager, Origin, append_as_follower
from kwire.log.compaction.rewrite import clean as rewritten
from kwire.log.compaction.settings import CleanerSettings
from kwire.log.compaction.task import CleaningTask, GroupCleaned
from kwire.log.compaction.worker_process import InThread
from kwire.log.directory.files import Files
from tests.log.compaction.history import open_log, task_for
from tests.log.compaction.legacy_messages import message
from tests.log.compaction.test_cleaner import CONFIG, NOW_MS, clean, contents, fill


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    manager = LogManager([tmp_path / "data"], defaults=CONFIG, clock=lambda: NOW_MS)
    manager.load()
    manager.cleaner.start_worker = lambda: InThread(Files())
    yield manager
    manager.close()


def test_segments_are_joined_up_to_the_index_size(manager: LogManager) -> None:
    """The size of the indexes is the limit, not that of the records."""
    log = manager.create("t", b"1" * 16, 0)
    log.update_config(replace(CONFIG, segment_index_bytes=200))
    fill(log, keys=120)
    before = log.segments.active.base_offset
    assert max(segment.size_bytes for segment in log.segments) > 200
    log.update_config(replace(log.config, segment_bytes=1_000_000))
    clean(manager)
    cleaned = [each for each in log.segments if each.base_offset < before]
    assert len(cleaned) < len({offset // 9 for offset, _ in contents(log)}) // 2
    assert max(path.stat().st_size for each in cleaned for path in each.index_paths()) <= 200


def test_cleaner_removes_records_without_a_key(manager: LogManager) -> None:
    """They are from a time when the topic was not compacted: whole batches, and single records."""
    log = manager.create("t", b"1" * 16, 0)
    for keys in ([None] * 3, [b"a", None, b"b"], [None] * 3):
        made = [Record(0, NOW_MS, key, b"v" * 90, []) for key in keys]
        log.append(build(made), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.roll(NOW_MS)
    fill(log, 1)
    clean(manager)
    assert [key for _, key in contents(log)] == [b"a", b"b", b"k0", b"k1", b"k2"]


def test_reading_backwards_returns_batches_of_any_size(manager: LogManager) -> None:
    log = manager.create("t", b"1" * 16, 0)
    for size in (10, 300, 1, 200):
        made = [Record(0, NOW_MS, b"k%d" % (size % 3), b"v" * size)]
        log.append(build(made), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    fill(log, 1)
    found = clean(manager)
    assert found.failure is None
    assert contents(log)[:3] == [(1, b"k0"), (2, b"k1"), (3, b"k2")]


@pytest.mark.parametrize(
    ("bases", "empty", "groups"),
    [
        ([0, 2**31 - 1, 2**31], (), [[0, 2**31 - 1]]),
        ([0, 2**31, 2**31 + 1], (), [[0], [2**31]]),
        ([7, 9, 2**31 + 7, 2**31 + 8], (), [[7, 9], [2**31 + 7]]),
        ([0, 5, 2**32], (), [[0], [5]]),
        ([0, 5, 2**32], (5,), [[0, 5]]),
        ([0, 5, 9, 2**32], (5,), [[0, 5], [9]]),
    ],
)
def test_segments_are_joined_up_to_the_offset_range_of_an_index(
    tmp_path: Path, bases: list[int], empty: tuple[int, ...], groups: list[list[int]]
) -> None:
    """From the first one's base to the last offset that the last one may hold; one of which
    nothing is left holds none."""
    log = open_log(tmp_path / "t-0", CONFIG)
    for base in bases[:-1]:
        log.roll(NOW_MS, base)
        made = [Record(base, NOW_MS, b"%d" % base, b"v")]
        batch = build(made, base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS, bases[-1])
    log.close()
    task = replace(task_for(log, now_ms=NOW_MS), segment_bytes=10**6)
    for base in empty:
        log.segments.floor(base).path.write_bytes(b"")  # type: ignore[union-attr]  # it is there
    sizes = {base: 0 if base in empty else size for base, size in task.segments}
    task = replace(task, segments=[(base, sizes[base]) for base in sizes if base >= bases[0]])
    answers = rewritten(task, Files())
    assert [each.sources for each in answers if isinstance(each, GroupCleaned)] == groups


@pytest.mark.parametrize("first_dirty", range(5))
@pytest.mark.parametrize("retention_ms", [0, 1, 2])
def test_tombstones_of_old_formats_expire_by_the_file_time(
    tmp_path: Path, first_dirty: int, retention_ms: int
) -> None:
    """Old tombstones have no timestamp. The file's modification time counts, compared with that of
    the last segment that was cleaned before."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    changed_ms = [1_000, 1_003, 1_001, 1_002]
    for base, at_ms in enumerate(changed_ms):
        path = folder / f"{base:020d}.log"
        path.write_bytes(message(base, 1, 0, NOW_MS, b"%d" % base, None))
        open_log(folder, CONFIG)  # which gives it indexes
        os.utime(path, ns=(at_ms * 10**6, at_ms * 10**6))
    log = open_log(folder, CONFIG)
    log.roll(NOW_MS)
    task = replace(
        task_for(log, first_dirty=first_dirty, now_ms=NOW_MS),
        delete_retention_ms=retention_ms,
        segment_bytes=10**6,
    )
    for base, at_ms in enumerate(changed_ms):
        os.utime(folder / f"{base:020d}.log", ns=(at_ms * 10**6, at_ms * 10**6))
    before_ms = changed_ms[first_dirty - 1] - retention_ms if first_dirty else 0
    wanted = [base for base, at_ms in enumerate(changed_ms) if at_ms > before_ms]
    (group, _) = rewritten(task, Files())
    assert isinstance(group, GroupCleaned)
    data = (folder / group.files[0]).read_bytes()
    assert [each.offset for at, _ in iter_batches(data) for each in records(data, at)] == wanted


def test_cleaner_follows_transactions_across_segments(tmp_path: Path) -> None:
    """Transactions of the first segment are aborted in the indexes of the second and third."""
    log = open_log(tmp_path / "t-0", CONFIG)
    log.producers.verify_transactions = False

    def send(name: int, key: bytes) -> None:
        entry = log.producers.entries.get(name)
        batch = build(
            [Record(0, NOW_MS, key, b"v")],
            producer_id=name,
            producer_epoch=0,
            base_sequence=entry.next_sequence if entry else 0,
            transactional=name >= 0,
        )
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)

    for name in (0, 1, 2):
        send(name, b"a%d" % name)
    for name in (1, 0):
        log.roll(NOW_MS)
        send(2, b"b%d" % name)
        marker = control_batch(
            ControlType.ABORT, 0, producer_id=name, producer_epoch=0, timestamp=NOW_MS
        )
        log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.roll(NOW_MS)
    log.close()
    task = replace(task_for(log, now_ms=NOW_MS), segment_bytes=10**6)
    (group, _) = rewritten(task, Files())
    assert isinstance(group, GroupCleaned)
    data = (log.dir / group.files[0]).read_bytes()
    kept = [
        each.key
        for at, header in iter_batches(data)
        if not header.is_control
        for each in records(data, at)
    ]
    assert kept == [b"a2", b"b1", b"b0"]


def test_cleaning_task_has_the_logs_state_and_configs(manager: LogManager) -> None:
    config = replace(CONFIG, segment_index_bytes=5000, delete_retention_ms=77)
    log = manager.create("t", b"1" * 16, 0, config)
    for name, count in ((0, 1), (3, 2)):
        made = [Record(0, NOW_MS, b"k", bytes(100))] * count
        batch = build(made, producer_id=name, producer_epoch=name, base_sequence=0)
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    fill(log)
    tasks: list[CleaningTask] = []

    class RecordingWorker(InThread):
        def begin(self, task: CleaningTask) -> None:
            tasks.append(task)
            super().begin(task)

    manager.cleaner.start_worker = lambda: RecordingWorker(Files())
    settings = CleanerSettings(
        log_cleaner_threads=2,
        log_cleaner_dedupe_buffer_size=100_000,
        log_cleaner_io_buffer_size=80_000,
        log_cleaner_io_max_bytes_per_second=10.0**9,
    )
    *bases, active = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
    clean(manager, settings=settings)
    assert tasks == [
        CleaningTask(
            directory=str(log.dir),
            segments=bases,
            later_segments=[active[0]],
            first_dirty=0,
            end_offset=active[0],
            upper_bound=active[0],
            now_ms=NOW_MS,
            delete_retention_ms=77,
            segment_bytes=1000,
            segment_index_bytes=5000,
            index_interval_bytes=200,
            producers=[(0, 0, 0), (3, 2, 3)],
            map_bytes_max=50_000,
            read_bytes=20_000,
            bytes_per_second=10.0**9,
        )
    ]
