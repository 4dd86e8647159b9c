"""A topic that is deleted and created again, step by step (test_namesakes.py: at random)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import LogManager, delete_records, run_all
from kwire.log.directory.log_dir import LogDir
from kwire.log.upkeep import maintenance
from tests.log.directory.conftest import (
    NOW_MS,
    TOPIC_ID,
    Clock,
    MakeManager,
    clock,
    kill,
    manager_of,
)

if TYPE_CHECKING:
    from tests.log.conftest import Append

__all__ = ["clock", "manager_of"]  # fixtures

OTHER_ID = b"fedcba9876543210"


@pytest.fixture
def deleted(manager_of: MakeManager, append: Append) -> LogManager:
    """A deleted log of ten records, of which eight were deleted before; with all checkpoints."""
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 10)
    delete_records(log, 8, 10)
    log.first_dirty_offset = 8
    manager.close()
    manager = manager_of()
    manager.delete("t", 0)
    return manager


@pytest.mark.parametrize("seconds", [0, 1])
def test_recreated_topic_has_no_offsets_of_the_deleted_one(
    seconds: int, deleted: LogManager, manager_of: MakeManager, append: Append
) -> None:
    if seconds:
        run_all(deleted.maintain(NOW_MS + seconds * 1000))
    append(deleted.create("t", OTHER_ID, 0), 5)
    kill(deleted)
    log = manager_of().logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert (log.recovery_point, log.first_dirty_offset) == (0, None)


def test_topic_recreated_after_a_restart_has_no_old_offsets(
    deleted: LogManager, manager_of: MakeManager, append: Append
) -> None:
    kill(deleted)
    again = manager_of()
    append(again.create("t", OTHER_ID, 0), 9)
    assert not again.high_watermarks
    kill(again)
    log = manager_of().logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (0, 9)


def test_checkpoint_prepared_before_the_deletion_is_not_used(
    manager_of: MakeManager, append: Append, clock: Clock
) -> None:
    """A thread may write it at any later time."""
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 10)
    log.flush()
    delete_records(log, 8, 10)
    clock.now_ms += 60_000
    jobs = manager.maintain(clock.now_ms)
    manager.delete("t", 0)
    append(manager.create("t", OTHER_ID, 0), 9)
    run_all(jobs)
    kill(manager)
    log = manager_of().logs["t", 0]
    assert (log.log_start_offset, log.recovery_point) == (0, 0)


def test_checkpoints_without_a_departed_log_are_written_ahead_of_its_creation(
    deleted: LogManager, manager_of: MakeManager, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop has threads write them; then a creation writes none."""
    jobs = deleted.maintenance.outdated_checkpoints([("t", 0), ("t", 1), ("u", 0)])
    assert len(jobs) == 4
    run_all(jobs)
    assert not deleted.maintenance.outdated_checkpoints([("t", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(LogDir, "write_checkpoint", None)
        append(deleted.create("t", OTHER_ID, 0), 9)
    kill(deleted)
    log = manager_of().logs["t", 0]
    assert (log.log_start_offset, log.recovery_point) == (0, 0)


def test_new_names_of_deleted_partitions_are_made_durable_together(
    manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of()
    for index in range(3):
        manager.create("t", TOPIC_ID, index)
    synced: list[Path | str] = []
    monkeypatch.setattr(manager.files, "fsync_dir", synced.append)
    for index in range(3):
        manager.delete("t", index)
    assert not synced
    run_all(manager.maintain(NOW_MS + 1000))
    assert synced.count(manager.online_dirs[0].path) == 1 + 4  # and once for each checkpoint


def test_log_that_departs_while_a_checkpoint_is_collected_stays_outdated(
    manager_of: MakeManager, append: Append, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line may have been collected before the log was deleted."""
    monkeypatch.setattr(maintenance, "LINES_AT_ONCE", 1)
    manager = manager_of()
    append(manager.create("t", TOPIC_ID, 0), 10)
    manager.create("u", TOPIC_ID, 0)
    clock.now_ms += 60_000
    jobs = manager.maintain(clock.now_ms)
    for job in jobs:
        next(job.steps, None)
    manager.delete("t", 0)
    run_all(jobs)
    assert manager.online_dirs[0].outdated(("t", 0))


def test_creation_of_a_new_topic_writes_no_checkpoint(deleted: LogManager, tmp_path: Path) -> None:
    """An fsync for each new partition would make topics slow to create."""
    deleted.create("u", OTHER_ID, 0)
    checkpoint = (tmp_path / "a" / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint == "0\n1\nt 0 10\n"


def test_folder_of_a_deleted_topic_on_a_returned_disk_is_set_aside(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    """The old folder becomes a stray, because no request asked for its removal."""
    manager = manager_of("a", "b")
    append(manager.create("t", TOPIC_ID, 0), 10)
    manager.dirs.dir_failed(manager.online_dirs[0], OSError(5, "made up"))
    append(manager.create("t", OTHER_ID, 0), 3)
    kill(manager)
    again = manager_of("a", "b", load=False)
    again.load(None, {"t": OTHER_ID}.get)
    assert again.logs["t", 0].dir.parent.name == "b"
    assert again.logs["t", 0].log_end_offset == 3
    assert len(list((tmp_path / "a").glob("t-0.*-stray"))) == 1
    assert not (tmp_path / "a" / "t-0").exists()


def test_foreign_folder_in_the_place_of_a_new_partition_is_set_aside(
    manager_of: MakeManager, append: Append, tmp_path: Path
) -> None:
    manager = manager_of()
    append(manager.create("t", TOPIC_ID, 0), 10)
    manager.close()
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "kept")
    manager = manager_of()
    manager.delete("t", 0)
    (tmp_path / "kept").rename(tmp_path / "a" / "t-0")
    assert manager.create("t", OTHER_ID, 0).log_end_offset == 0
    assert len(list((tmp_path / "a").glob("t-0.*-stray"))) == 1
