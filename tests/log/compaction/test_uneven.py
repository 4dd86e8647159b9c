"""What the cleaner makes of segments and batches of uneven kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.log import LogManager, Origin, append_as_follower
from kwire.log.compaction.rewrite import clean as rewritten
from kwire.log.compaction.task import GroupCleaned
from kwire.log.compaction.worker_process import InThread
from kwire.log.directory.files import Files
from tests.log.compaction.history import open_log, task_for
from tests.log.compaction.test_cleaner import CONFIG, NOW_MS, clean, contents, fill


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    manager = LogManager([tmp_path / "data"], defaults=CONFIG, clock=lambda: NOW_MS)
    manager.load()
    manager.cleaner.start_worker = lambda: InThread(Files())
    yield manager
    manager.close()


def test_segments_are_joined_as_far_as_one_holds_them(manager: LogManager) -> None:
    """Their indexes are small, whatever their records take."""
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


def test_records_without_a_key_go(manager: LogManager) -> None:
    """From the time when the topic was not compacted; whole batches of them as well as some."""
    log = manager.create("t", b"1" * 16, 0)
    for keys in ([None] * 3, [b"a", None, b"b"], [None] * 3):
        made = [Record(0, NOW_MS, key, b"v" * 90, []) for key in keys]
        log.append(build(made), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.roll(NOW_MS)
    fill(log, 1)
    clean(manager)
    assert [key for _, key in contents(log)] == [b"a", b"b", b"k0", b"k1", b"k2"]


def test_batches_of_any_sizes_are_read_backwards(manager: LogManager) -> None:
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
def test_segments_are_joined_as_far_as_an_index_reaches(
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
