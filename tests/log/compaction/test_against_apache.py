"""kwire's cleaner and that of Apache Kafka leave the same records of the same logs.

Hypothesis draws what is appended: keys of two lengths, none, and again; null values; every
codec; producers in and out of transactions that commit and abort.  Two rounds are compared: one
over everything, and a later one after more appends and after the delete horizons.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kwire.codecs.batches import BatchHeader, Compression, Record
from kwire.log import Log
from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.swap import Swap
from kwire.log.compaction.task import CleaningTask, GroupCleaned, PassDone
from kwire.log.directory.files import Files
from tests.log.compaction import legacy_messages
from tests.log.compaction.apache_cleaner import ApacheCleaner
from tests.log.compaction.history import (
    CONFIG,
    DELETE_RETENTION_MS,
    NOW_MS,
    STEPS,
    Batch,
    End,
    Roll,
    Step,
    Writer,
    batches_in,
    key_bytes,
    open_log,
    task_for,
    txn_indexes_in,
)
from tests.log.configs import log_config

HOUR_MS = 3_600_000
DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPACTED = replace(CONFIG, cleanup_policy=frozenset({"compact"}))


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
    """Clean the log by kwire, and a copy of it by Apache Kafka."""
    log.close()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # it deletes later
        copy = Path(folder, "t-0")
        shutil.copytree(log.dir, copy, ignore=shutil.ignore_patterns("*.deleted"))
        clean_here(log, task)
        end = apache_cleaner.clean(copy, task)
        assert list(batches_in(log.dir)) == list(batches_in(copy))
        assert txn_indexes_in(log.dir) == txn_indexes_in(copy)
        assert end == task.upper_bound


def producer_state(log: Log) -> dict[int, tuple[int, int]]:
    """The last sequence number and epoch of each producer, which must survive."""
    return {
        entry.producer_id: (entry.last_sequence, entry.epoch)
        for entry in log.producers.entries.values()
    }


def state_without_snapshots(directory: Path) -> dict[int, tuple[int, int]]:
    """The producer state that a recovery without snapshots gives.

    Compaction leaves gaps between segments, which a recovery accepts only in a compacted topic.
    """
    with tempfile.TemporaryDirectory() as folder:
        unwanted = shutil.ignore_patterns("*.snapshot", "*.deleted")
        copy = shutil.copytree(directory, Path(folder, "t-0"), ignore=unwanted)
        return producer_state(open_log(copy, COMPACTED))


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example costs some 50 ms
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(first=STEPS, second=STEPS)
def test_two_rounds_leave_the_records_that_apache_kafka_leaves(
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
        assert state_without_snapshots(log.dir) == producer_state(log)
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


def legacy_message(
    magic: int, codec: Compression, first: int, pairs: list[tuple[int | None, int | None]]
) -> bytes:
    """Records as messages of magic 0 or 1: one after the other, or wrapped in a compressed one."""
    made = [
        Record(
            first + number,
            NOW_MS + number if magic else -1,
            None if key is None else key_bytes(key),
            None if value is None else b"v" * value,
        )
        for number, (key, value) in enumerate(pairs)
    ]
    if codec is Compression.NONE:
        return b"".join(
            legacy_messages.message(r.offset, magic, 0, r.timestamp, r.key, r.value) for r in made
        )
    header = BatchHeader(0, 0, -1, magic, 0, int(codec), 0, -1, -1, -1, -1, -1, -1)
    return legacy_messages.wrapped(header, made)


LEGACY_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
LEGACY_PAIRS = st.lists(
    st.tuples(st.one_of(st.integers(0, 5), st.none()), st.one_of(st.none(), st.integers(0, 90))),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    messages=st.lists(
        st.tuples(st.sampled_from([0, 1]), st.sampled_from(LEGACY_CODECS), LEGACY_PAIRS),
        min_size=1,
        max_size=10,
    ),
    steps=STEPS,
    deletes_stay=st.booleans(),
)
def test_old_message_formats_are_compacted_as_by_apache_kafka(
    messages: list[tuple[int, Compression, list[tuple[int | None, int | None]]]],
    steps: list[Step],
    deletes_stay: bool,
    apache_cleaner: ApacheCleaner,
    tmp_path: Path,
) -> None:
    """The messages are from before Kafka 0.11; batches of the present format follow them."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        directory = Path(folder, "t-0")
        directory.mkdir()
        first, data = 0, b""
        for magic, codec, pairs in messages:
            data += legacy_message(magic, codec, first, pairs)
            first += len(pairs)
        path = directory / f"{0:020d}.log"
        path.write_bytes(data)
        log = open_log(directory)
        log.roll(NOW_MS)
        writer = Writer(log)
        writer.write([*steps, Batch([(0, 1)], Compression.NONE, None, False)])
        writer.close_transactions()
        log.roll(writer.stamp)
        stamp_s = 1_600_000_000
        os.utime(path, (stamp_s, stamp_s))
        for segment in list(log.segments)[1:]:
            os.utime(segment.path, (stamp_s, stamp_s + (0 if deletes_stay else 3600)))
        dirty = list(log.segments)[1].base_offset if deletes_stay else first
        compare(log, task_for(log, first_dirty=dirty, now_ms=NOW_MS), apache_cleaner)


def test_apache_kafka_finds_nothing_wrong_in_cleaned_files(
    java_class: Callable[..., CompletedProcess[str]], rng: random.Random, tmp_path: Path
) -> None:
    """DumpLogSegments reads every record and checks the indexes against the log."""
    log = open_log(tmp_path / "t-0", log_config(segment_bytes=200_000, index_interval_bytes=300))
    writer = Writer(log)
    for number in range(1500):
        pairs = [(rng.randrange(400), rng.choice([None, 7, 60])) for _ in range(rng.randint(1, 5))]
        codec = rng.choice(list(Compression))
        producer = rng.choice([None, 1, 2])
        writer.write([Batch(list(pairs), codec, producer, producer == 2)])
        if number % 40 == 0:
            writer.write([End(2, number % 80 == 0), Roll()])
    writer.close_transactions()
    log.roll(writer.stamp)
    log.close()
    clean_here(log, task_for(log, now_ms=NOW_MS + HOUR_MS))
    files = sorted(path for path in log.dir.glob("*.*index") if path.stat().st_size)
    files += sorted(log.dir.glob("*.log"))
    assert any(path.suffix == ".txnindex" for path in files)
    assert any(path.suffix == ".index" for path in files)
    arguments = ["--deep-iteration", "--verify-index-only"]
    for options in (arguments[:1], arguments[1:]):
        done = java_class(DUMP, [*options, "--files", ",".join(map(str, files))])
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        for wrong in ("Mismatches", "not found", "isvalid: false", "Exception"):
            assert wrong not in text, text[-3000:]
