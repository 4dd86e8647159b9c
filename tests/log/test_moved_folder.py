"""A log whose folder is renamed continues there, with its files and those it creates later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import ControlType, control_batch
from kwire.log import (
    Origin,
    aborted_transactions,
    delete_expired_segments,
    offset_for_timestamp,
    truncate_to,
)
from kwire.log.upkeep.moving import moved_to
from tests.log.configs import log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
SMALL = log_config(segment_bytes=300, index_interval_bytes=0, retention_ms=1000)


@pytest.mark.parametrize("loaded", [True, False])
def test_log_uses_every_file_under_its_new_folder_name(
    open_log: OpenLog, append: Append, read_all: ReadAll, log_dir: Path, loaded: bool
) -> None:
    log = open_log(SMALL)
    for number in range(7):
        append(log, timestamp=NOW_MS + number)
    append(log, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    abort = control_batch(ControlType.ABORT, 0, producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    log.append(abort, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    if not loaded:  # indexes and files are opened when they are first used
        log.close()
        log = open_log(SMALL, clean=True, recovery_point=9)
    delete_expired_segments(log, NOW_MS + 1005, log.log_end_offset)
    start, removed = (
        log.log_start_offset,
        [path.name for r in log.storage.removals for path in r.paths],
    )
    assert start
    assert removed

    target = log_dir.with_name("elsewhere")
    log_dir.rename(target)
    moved_to(log, target)
    log_dir.mkdir()  # what is written to the old name is found in here

    for removal in log.storage.removals:
        for path in removal.paths:
            path.unlink()
    assert [record.offset for record in read_all(log)][:2] == [start, start + 1]
    found = offset_for_timestamp(log, NOW_MS + 6)
    assert found is not None
    assert found.offset == 6
    assert aborted_transactions(log, start, log.log_end_offset) == [(1, 7)]
    for number in range(4):
        append(log, timestamp=NOW_MS + 20 + number, leader_epoch=2)
    assert truncate_to(log, log.log_end_offset - 1, NOW_MS)
    log.close()
    assert list(log_dir.iterdir()) == []
    for clean in (True, False):
        again = open_log(SMALL, directory=target, clean=clean, log_start_offset=start)
        assert read_all(again) == read_all(log)
        assert again.epochs.entries[-1][0] == 2
        assert aborted_transactions(again, start, again.log_end_offset) == [(1, 7)]
