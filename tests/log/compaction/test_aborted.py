"""The cleaner finds all aborted transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.batches import Compression
from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.task import Answer
from kwire.log.directory.files import Files
from tests.log.compaction.history import NOW_MS, Batch, End, Roll, Writer, open_log, task_for

PLAIN = Batch([(2, 9), (3, 9)], Compression.NONE, None, transactional=False)
ABORTED = Batch([(2, 5), (4, 5)], Compression.NONE, 1, transactional=True)


@pytest.mark.parametrize("first_dirty", range(8))
def test_cleaner_removes_aborted_records_for_any_start_of_the_dirty_part(
    tmp_path: Path, first_dirty: int
) -> None:
    """It may begin within a segment, because the last cleaning ended there."""
    log = open_log(tmp_path / "t-0")
    writer = Writer(log)
    writer.write([PLAIN, ABORTED, Roll(), PLAIN, End(1, commit=False), Roll(), PLAIN])
    task = task_for(log, first_dirty=first_dirty, now_ms=NOW_MS)
    answers = list(clean(task, Files()))
    assert answers
    assert all(isinstance(each, Answer) for each in answers)
    log.close()
