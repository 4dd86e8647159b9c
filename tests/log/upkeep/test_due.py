"""The jobs of a round of upkeep are exactly the work that is due."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, LogManager, delete_expired_segments, delete_records
from kwire.log.config import LONG_MAX
from kwire.log.directory.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS
from kwire.log.storage import Storage
from kwire.log.upkeep.job import Job, run_all
from tests.log.configs import DEFAULTS, log_config
from tests.log.conftest import NOW_MS, TOPIC_ID

if TYPE_CHECKING:
    from tests.log.conftest import Append


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    made = LogManager([tmp_path], defaults=DEFAULTS, clock=lambda: NOW_MS)
    made.load()
    yield made
    made.close()


def flushed_by(manager: LogManager, log: Log, now_ms: int = NOW_MS) -> bool:
    """Whether maintenance flushes what is not durable yet."""
    before = log.recovery_point
    run_all(manager.maintain(now_ms))
    return log.recovery_point > before


def test_maintenance_flushes_rolled_segments_only(manager: LogManager, append: Append) -> None:
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    assert not flushed_by(manager, log)
    log.roll(NOW_MS)
    append(log, 2)
    assert flushed_by(manager, log)
    log.roll(NOW_MS)
    log.flush()
    append(log, 2)
    assert not flushed_by(manager, log), "the older segments are durable"
    assert (log.recovery_point, log.log_end_offset) == (5, 7)


def test_log_start_above_the_recovery_point_is_flushed(manager: LogManager, append: Append) -> None:
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    log.flush()
    append(log, 2)
    delete_records(log, 3, 5)
    assert not flushed_by(manager, log), "the log is durable up to 3"
    delete_records(log, 4, 5)
    assert flushed_by(manager, log)
    assert not flushed_by(manager, log)


def test_one_round_removes_deleted_folders_and_segments(
    manager: LogManager, append: Append
) -> None:
    kept, gone = (manager.create(name, TOPIC_ID, 0) for name in ("kept", "gone"))
    for log in (kept, gone):
        log.update_config(log_config(file_delete_delay_ms=1000))
        append(log, 3)
        log.roll(NOW_MS)
        log.flush()
    delete_records(kept, 3, 3)
    assert delete_expired_segments(kept, NOW_MS, 3) == 1
    manager.delete("gone", 0)
    root = kept.dir.parent
    run_all(manager.maintain(NOW_MS + 100_000))
    assert not list(kept.dir.glob("*.deleted"))
    assert not list(root.glob("gone-*"))
    assert kept.dir.exists()


def test_checkpoints_are_written_only_after_a_change(
    manager: LogManager, append: Append, tmp_path: Path
) -> None:
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    log.flush()
    written = {"recovery-point-offset-checkpoint", "replication-offset-checkpoint"}
    written.add("log-start-offset-checkpoint")
    run_all(manager.maintain(NOW_MS + 60_000))
    assert {path.name for path in tmp_path.glob("*checkpoint")} == written
    for name in written:
        (tmp_path / name).unlink()
    run_all(manager.maintain(NOW_MS + 120_000))
    assert not list(tmp_path.glob("*checkpoint")), "nothing has changed"
    append(log)
    run_all(manager.maintain(NOW_MS + 180_000))
    assert {path.name for path in tmp_path.glob("*checkpoint")} == written


@pytest.mark.parametrize("name", [CLEANER_OFFSETS, HIGH_WATERMARKS])
def test_checkpoint_is_not_written_twice_at_a_time(
    manager: LogManager, append: Append, tmp_path: Path, name: str
) -> None:
    """The later write has the offsets of that time."""
    log = manager.create("t", TOPIC_ID, 0)

    def changed(offset: int) -> None:
        append(log)
        if name == CLEANER_OFFSETS:
            log.first_dirty_offset = offset
            manager.maintenance.cleaner_offsets_changed = True

    def jobs(now_ms: int) -> list[Job]:
        return [job for job in manager.maintain(now_ms) if job.what.endswith(name)]

    changed(1)
    (first,) = jobs(NOW_MS + 5_000)
    first.run()
    changed(2)
    assert jobs(NOW_MS + 10_000) == []
    first.finish()
    (second,) = jobs(NOW_MS + 15_000)
    run_all([second])
    assert (tmp_path / name).read_text() == "0\n1\nt 0 2\n"
    assert jobs(NOW_MS + 20_000) == [], "nothing has changed since"


@pytest.mark.parametrize("flush_ms", [1000, LONG_MAX])
@pytest.mark.parametrize("is_durable", [False, True])
def test_maintenance_skips_idle_logs(
    manager: LogManager,
    append: Append,
    flush_ms: int,
    is_durable: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logs with pending work are visited in each round."""
    log = manager.create("t", TOPIC_ID, 0, log_config(flush_ms=flush_ms))
    append(log)
    if is_durable:
        log.flush()
    looks = 0
    take_due = Storage.take_due

    def look(storage: Storage, now_ms: int) -> list[Path]:
        nonlocal looks
        looks += 1
        return take_due(storage, now_ms)

    monkeypatch.setattr(Storage, "take_due", look)
    for round_ in range(4):
        manager.maintain(NOW_MS + round_)
    awaits = flush_ms < LONG_MAX and not is_durable
    assert looks == (4 if awaits else 1)


def test_log_has_one_flush_job_at_a_time(manager: LogManager, append: Append) -> None:
    """When it ends, the next job has the later appends."""
    log = manager.create("t", TOPIC_ID, 0)
    append(log)
    log.roll(NOW_MS)

    def flushes(now_ms: int) -> list[Job]:
        return [job for job in manager.maintain(now_ms) if job.what.startswith("flush")]

    (first,) = flushes(NOW_MS)
    first.run()
    append(log)
    log.roll(NOW_MS)
    assert flushes(NOW_MS + 1) == []
    first.finish()
    assert log.recovery_point == 1
    (second,) = flushes(NOW_MS + 2)
    run_all([second])
    assert log.recovery_point == 2
