"""kwire's cleaner and Apache Kafka's leave the same of the same logs.

hypothesis thinks up what is appended: keys of two lengths, none, and again; null values; every
codec; producers in and out of transactions that commit and abort.  Two rounds are compared: one
over everything, and a later one after more appends and after the delete horizons.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from kwire.log import Log
from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.swap import Swap
from kwire.log.compaction.task import CleaningTask, GroupCleaned, PassDone
from kwire.log.files import Files
from tests.log.compaction.apache_cleaner import ApacheCleaner
from tests.log.compaction.history import (
    DELETE_RETENTION_MS,
    NOW_MS,
    STEPS,
    Step,
    Writer,
    batches_in,
    open_log,
    task_for,
    txn_indexes_in,
)

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def apache_cleaner(apache_kafka_libs: Path) -> Iterator[ApacheCleaner]:
    with ApacheCleaner() as cleaner:
        yield cleaner


def clean_here(log: Log, task: CleaningTask) -> None:
    for answer in clean(task, Files()):
        if isinstance(answer, GroupCleaned):
            found = {segment.base_offset: segment for segment in log.segments}
            swap = Swap(log, answer, [found[base] for base in answer.sources])
            swap.begin()
            swap.complete(task.now_ms)
        else:
            assert isinstance(answer, PassDone)
            assert answer.first_offset == task.first_dirty


def compare(log: Log, task: CleaningTask, apache_cleaner: ApacheCleaner) -> None:
    """Clean the log here, and a copy of it there."""
    log.close()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # it deletes later
        copy = Path(folder, "t-0")
        shutil.copytree(log.dir, copy, ignore=shutil.ignore_patterns("*.deleted"))
        clean_here(log, task)
        end = apache_cleaner.clean(copy, task)
        assert list(batches_in(log.dir)) == list(batches_in(copy))
        assert txn_indexes_in(log.dir) == txn_indexes_in(copy)
        assert end == task.upper_bound


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example costs some 50 ms
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(first=STEPS, second=STEPS)
def test_two_rounds_leave_the_same(
    first: list[Step], second: list[Step], apache_cleaner: ApacheCleaner, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        log = open_log(Path(folder, "t-0"))
        writer = Writer(log)
        writer.write(first)
        writer.close_transactions()
        log.roll(writer.stamp)
        dirty = log.log_end_offset
        compare(log, task_for(log, now_ms=NOW_MS + HOUR_MS), apache_cleaner)
        log = open_log(Path(folder, "t-0"), clean=True)
        again = Writer(log)
        again.__dict__.update(writer.__dict__, log=log)
        again.write(second)
        again.close_transactions()
        assume(log.log_end_offset > dirty)  # Kafka finds nothing to do
        log.roll(again.stamp)
        now_ms = NOW_MS + HOUR_MS + DELETE_RETENTION_MS
        compare(log, task_for(log, first_dirty=dirty, now_ms=now_ms), apache_cleaner)
        log.close()
