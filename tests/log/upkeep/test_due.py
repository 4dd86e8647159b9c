"""Which work is due, told by the jobs that are handed out: no more than is said, and all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, LogManager, delete_expired_segments, delete_records
from kwire.log.upkeep.job import run_all
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
    """Whether maintenance makes durable what is not yet."""
    before = log.recovery_point
    run_all(manager.maintain(now_ms))
    return log.recovery_point > before


def test_what_is_rolled_is_flushed_and_what_is_written_to_is_not(
    manager: LogManager, append: Append
) -> None:
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


def test_deleted_records_are_behind_what_is_durable(manager: LogManager, append: Append) -> None:
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 3)
    log.flush()
    append(log, 2)
    delete_records(log, 3, 5)
    assert not flushed_by(manager, log), "up to there it is durable"
    delete_records(log, 4, 5)
    assert flushed_by(manager, log)
    assert not flushed_by(manager, log)


def test_folders_and_segments_go_in_one_round(manager: LogManager, append: Append) -> None:
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


def test_checkpoints_are_written_when_they_say_something_new(
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
