"""Upkeep visits changed logs only, and writes checkpoints that may have changed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, delete_records, run_all
from kwire.log.recovery import truncation
from kwire.log.upkeep import maintenance
from kwire.log.upkeep.removal import remove_segments
from kwire.storage.partitions.partition import Partition
from tests.log.configs import log_config
from tests.log.directory.conftest import NOW_MS, TOPIC_ID, Clock, MakeManager

if TYPE_CHECKING:
    from tests.log.conftest import Append

CHANGES: dict[str, Callable[[Log, Append], object]] = {
    "append": lambda log, append: append(log),
    "delete records": lambda log, _: delete_records(log, 2, 3),
    "removal": lambda log, _: remove_segments(log, [], NOW_MS),
    "truncate": lambda log, _: truncation.truncate_to(log, 1, NOW_MS),
    "start anew": lambda log, _: truncation.truncate_fully(log, 9, NOW_MS),
    "flush later": lambda log, _: log.update_config(log_config(flush_ms=1 << 40)),
    "roll by age": lambda log, _: maintenance._retain(log, NOW_MS + (1 << 40), 0),
    "high watermark": lambda log, _: Partition(log, 0).advance_high_watermark(3, 0),
}
"""What may change a checkpoint, or have something to be done."""


@pytest.mark.parametrize("change", CHANGES)
def test_upkeep_visits_only_changed_logs(
    manager_of: MakeManager,
    clock: Clock,
    append: Append,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    manager = manager_of()
    logs = [manager.create("t", TOPIC_ID, index) for index in range(3)]
    for log in logs:
        append(log, 3)
    run_all(manager.maintain(clock.now_ms + 60_000))
    seen: list[Log] = []
    must_flush = maintenance._must_flush

    def look(log: Log, now_ms: int) -> bool:
        seen.append(log)
        return must_flush(log, now_ms)

    monkeypatch.setattr(maintenance, "_must_flush", look)
    assert manager.maintain(clock.now_ms + 120_000) == []
    assert seen == []
    CHANGES[change](logs[1], append)
    written = [job.what for job in manager.maintain(clock.now_ms + 120_001)]
    assert sum("-checkpoint" in each for each in written) == 3
    assert set(seen) == {logs[1]}


def test_checkpoint_follows_a_flush_by_upkeep(
    manager_of: MakeManager, clock: Clock, append: Append, tmp_path: Path
) -> None:
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0, log_config(flush_ms=1000))
    append(log, 7)
    run_all(manager.maintain(clock.now_ms + 60_000)[::-1])  # the flush comes first
    assert log.recovery_point == 7
    run_all(manager.maintain(clock.now_ms + 120_000))
    assert (tmp_path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 7\n"


def test_failed_checkpoint_is_written_in_the_next_round(
    manager_of: MakeManager, clock: Clock
) -> None:
    manager = manager_of()
    for after_ms in (60_000, 120_000):
        jobs = manager.maintain(clock.now_ms + after_ms)
        assert len(jobs) == 3
        for job in jobs:
            job.error = OSError(errno.ENOSPC, "no room")
            job.finish()


def test_checkpoint_changed_during_its_write_is_written_again(
    manager_of: MakeManager, clock: Clock, append: Append, tmp_path: Path
) -> None:
    manager = manager_of()
    log = manager.create("t", TOPIC_ID, 0)
    jobs = manager.maintain(clock.now_ms + 60_000)
    append(log, 7)
    assert manager.maintain(clock.now_ms + 120_000) == []
    run_all(jobs)
    run_all(manager.maintain(clock.now_ms + 180_000))
    assert (tmp_path / "a" / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 7\n"
