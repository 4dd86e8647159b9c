"""A swap of cleaned segments is complete or undone after any crash."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.log import Log, delete_expired_segments, truncate_to
from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.swap import Swap
from kwire.log.compaction.task import GroupCleaned
from kwire.log.directory.files import Files, OpenFile
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.log.compaction.history import NOW_MS, TOPIC_ID, task_for
from tests.log.configs import log_config

CONFIG = log_config(
    segment_bytes=2000, index_interval_bytes=200, cleanup_policy=frozenset({"compact"})
)
BATCHES = 60


class PowerCut(BaseException):
    """Raised in place of a change; nothing handles it."""


class CutDisk(Files):
    """Makes the changes of the folder before the `left`-th, and none from there on."""

    def __init__(self) -> None:
        self.left = 1 << 30

    def _spend(self) -> None:
        if self.left == 0:
            raise PowerCut
        self.left -= 1

    def rename(self, source: Path | str, target: Path | str) -> None:
        self._spend()
        super().rename(source, target)

    def remove(self, path: Path | str) -> None:
        self._spend()
        super().remove(path)

    def fsync_dir(self, path: Path | str) -> None:
        self._spend()
        super().fsync_dir(path)

    def open(self, path: Path | str) -> OpenFile:
        return super().open(path)


def open_log(directory: Path, files: Files | None = None, *, recovery_point: int = 0) -> Log:
    settings = SharedLogSettings(files or Files(), OpenFiles(100), verify_transactions=False)
    return load(
        directory,
        "t",
        0,
        CONFIG,
        settings,
        now_ms=NOW_MS,
        topic_id=TOPIC_ID,
        recovery_point=recovery_point,
    )


def fill(log: Log) -> None:
    for number in range(BATCHES):
        made = [Record(i, NOW_MS + number, b"k%d" % ((number + i) % 7), b"%d" % number * 50)
                for i in range(3)]  # fmt: skip
        log.append(build(made), leader_epoch=0, now_ms=NOW_MS)
        if number % 2:
            log.roll(NOW_MS)
    log.flush()


def last_values(log: Log) -> dict[bytes, tuple[int, bytes]]:
    """The last value of each key for a consumer of the whole log; offsets must grow."""
    found: dict[bytes, tuple[int, bytes]] = {}
    offset = 0
    while region := log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True):
        data = region.read()
        before = offset
        for at, header in iter_batches(data):
            for record in records(data, at):
                assert record.key is not None
                assert record.value is not None
                if record.offset >= offset:
                    found[record.key] = record.offset, record.value
            offset = max(offset, header.last_offset + 1)
        assert offset > before
    return found


def prepare(log: Log) -> tuple[Swap, list[GroupCleaned]]:
    """The log's first groups, cleaned."""
    answers = list(clean(task_for(log, now_ms=NOW_MS), Files()))
    groups = [answer for answer in answers if isinstance(answer, GroupCleaned)]
    found = {segment.base_offset: segment for segment in log.segments}
    first = groups[0]
    assert len(first.sources) > 1
    return Swap(log, first, [found[base] for base in first.sources]), groups


def swap_in(swap: Swap) -> None:
    swap.begin()
    swap.fsync()
    swap.complete(NOW_MS)
    swap.fsync()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "filled" / "t-0"
    folder.mkdir(parents=True)
    log = open_log(folder)
    fill(log)
    prepare(log)
    return folder


def steps_of(filled: Path, tmp_path: Path) -> int:
    """The number of changes of the folder by a swap."""
    folder = tmp_path / "count" / "t-0"
    shutil.copytree(filled, folder)
    disk = CutDisk()
    log = open_log(folder, disk)
    swap, _ = prepare(log)
    before = disk.left
    swap_in(swap)
    return before - disk.left


@pytest.mark.slow
def test_crash_at_every_step_of_a_swap_keeps_the_last_values(filled: Path, tmp_path: Path) -> None:
    steps = steps_of(filled, tmp_path)
    assert steps > 10
    sizes = set()
    for step in range(steps + 1):
        folder = tmp_path / f"crash-{step}" / "t-0"
        shutil.copytree(filled, folder, ignore=shutil.ignore_patterns("*.cleaned"))
        disk = CutDisk()
        log = open_log(folder, disk)
        expected = last_values(log)
        end = log.log_end_offset
        swap, _ = prepare(log)
        disk.left = step
        if step < steps:
            with pytest.raises(PowerCut):
                swap_in(swap)
        else:
            swap_in(swap)
        again = open_log(folder, recovery_point=end)
        assert last_values(again) == expected, f"after a crash at step {step}"
        assert again.log_end_offset == end
        sizes.add(again.segments.size_bytes)
        left = [path.name for path in folder.iterdir() if ".snapshot" not in path.name]
        assert not [name for name in left if name.endswith((".cleaned", ".swap", ".deleted"))]
        for segment in again.segments:  # the indexes belong to their segments
            for at, header in segment.headers():
                assert segment.find(header.base_offset) == (at, header)
    # Before the swap, after it, and between: old segments behind the last record kept may stay.
    assert len(sizes) >= 2


@pytest.mark.slow
def test_crash_during_the_repair_of_a_swap_keeps_the_last_values(
    filled: Path, tmp_path: Path
) -> None:
    steps = steps_of(filled, tmp_path)
    expected = last_values(open_log(shutil.copytree(filled, tmp_path / "plain" / "t-0")))
    for step in range(1, steps, 4):
        for second in range(0, 12, 2):
            folder = tmp_path / f"crash-{step}-{second}" / "t-0"
            shutil.copytree(filled, folder, ignore=shutil.ignore_patterns("*.cleaned"))
            disk = CutDisk()
            log = open_log(folder, disk)
            end = log.log_end_offset
            swap, _ = prepare(log)
            disk.left = step
            with pytest.raises(PowerCut):
                swap_in(swap)
            disk.left = second
            with suppress(PowerCut):
                open_log(folder, disk, recovery_point=end)
            assert last_values(open_log(folder, recovery_point=end)) == expected
            shutil.rmtree(folder)


def test_reads_continue_in_replaced_segments(filled: Path) -> None:
    log = open_log(filled)
    region = log.read(0, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True)
    assert region is not None
    before = region.read()
    expected = last_values(log)
    swap, _ = prepare(log)
    swap_in(swap)
    assert region.read() == before
    assert last_values(log) == expected
    for offset in range(log.log_end_offset):  # also offsets of removed records
        found = log.read(offset, 1, max_offset=log.log_end_offset, min_one_batch=True)
        assert found is not None
        header = next(iter_batches(found.read()))[1]
        assert header.last_offset >= offset


def test_removing_segments_cancels_a_swap(filled: Path) -> None:
    log = open_log(filled)
    swap, _ = prepare(log)
    swap.begin()
    assert list(filled.glob("*.swap"))
    truncate_to(log, 6, NOW_MS)
    assert swap.cancelled
    assert log.cancel_swap is None
    assert not list(filled.glob("*.swap"))
    assert open_log(filled).log_end_offset == log.log_end_offset == 6


def test_retention_cancels_a_swap(filled: Path) -> None:
    log = open_log(filled)
    swap, _ = prepare(log)
    swap.begin()
    log.increment_log_start_offset(100)
    assert delete_expired_segments(log, NOW_MS, log.log_end_offset) > 0
    assert swap.cancelled
    assert not list(filled.glob("*.swap"))


@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_replaced_segments_are_removed_after_the_delay(filled: Path, delay_ms: int) -> None:
    log = open_log(filled)
    log.update_config(replace(CONFIG, file_delete_delay_ms=delay_ms))
    swap, _ = prepare(log)
    bases = [segment.base_offset for segment in swap.sources]
    swap_in(swap)
    assert {removal.due_ms for removal in log.storage.removals} == {NOW_MS + delay_ms}
    gone = {path.name for removal in log.storage.removals for path in removal.paths}
    assert {f"{base:020d}.log.deleted" for base in bases} <= gone
    assert gone == {path.name for path in filled.glob("*.deleted")}


def test_swap_removes_the_snapshots_of_removed_segments(filled: Path) -> None:
    log = open_log(filled)
    bases = {segment.base_offset for segment in log.segments}
    before = set(log.snapshots.offsets)
    swap, _ = prepare(log)
    swap_in(swap)
    gone = bases - {segment.base_offset for segment in log.segments}
    assert gone
    assert not gone & log.snapshots.offsets
    assert log.snapshots.offsets == before - gone
