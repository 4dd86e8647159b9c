"""kwire's cleaner leaves of fixed histories what Apache Kafka's left of them, recorded in a file.

`apache_answers.txt` has a line for each seed: digests of what a reader sees after two rounds.
`pytest --rewrite tests/log/compaction/test_kept_answers.py` writes the file again with Apache
Kafka's cleaner.  test_against_apache.py compares both on other histories in each run.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.codecs.batches import Compression
from kwire.log import Log
from kwire.log.compaction.task import CleaningTask
from tests.log.compaction.apache_cleaner import ApacheCleaner
from tests.log.compaction.history import (
    DELETE_RETENTION_MS,
    NOW_MS,
    Batch,
    End,
    Roll,
    Step,
    Writer,
    batches_in,
    open_log,
    task_for,
    txn_indexes_in,
)
from tests.log.compaction.test_against_apache import (
    HOUR_MS,
    LEGACY_CODECS,
    clean_here,
    legacy_message,
)

ANSWERS = Path(__file__).with_name("apache_answers.txt")
SEEDS = range(32)
Cleaner = Callable[[Log, CleaningTask], list[str]]


def kept_answers() -> dict[int, list[str]]:
    lines = [line.split() for line in ANSWERS.read_text().splitlines()]
    return {int(seed): answers for seed, *answers in lines}


# What is appended


def steps_of(draw: random.Random, count: int, *, codecs: list[Compression]) -> list[Step]:
    """Few keys of two lengths, so that most are written again; producers in and out of
    transactions; batches of which nothing, something or everything stays."""
    steps: list[Step] = []
    for _ in range(count):
        what = draw.random()
        if what < 0.15:
            steps.append(Roll())
        elif what < 0.4:
            steps.append(End(draw.choice([1, 2, 3]), draw.random() < 0.5))
        else:
            keys = [None, *range(6)] if draw.random() < 0.2 else list(range(draw.choice([3, 40])))
            pairs = [
                (draw.choice(keys), None if draw.random() < 0.25 else draw.randrange(90))
                for _ in range(draw.randrange(1, 6))
            ]
            producer = draw.choice([None, None, 1, 2, 3])
            steps.append(Batch(pairs, draw.choice(codecs), producer, draw.random() < 0.6))
    return steps


def legacy_of(draw: random.Random) -> bytes:
    """Drawn messages in the formats before Kafka 0.11."""
    data, first = b"", 0
    for _ in range(draw.randrange(1, 9)):
        pairs = [
            (
                None if draw.random() < 0.1 else draw.randrange(8),
                None if draw.random() < 0.3 else draw.randrange(90),
            )
            for _ in range(draw.randrange(1, 6))
        ]
        magic, codec = draw.choice([0, 1]), draw.choice(LEGACY_CODECS)
        data += legacy_message(magic, codec, first, pairs)
        first += len(pairs)
    return data


# What is left


def digest(directory: Path, *, names: bool) -> str:
    """With codecs, their libraries decide how much fits into a file: then without `names`."""
    seen = [
        (
            name if names else "",
            [int(str(field)) for field in batch.header],
            batch.horizon_ms,
            [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records],
        )
        for name, batch in batches_in(directory)
        if names or batch.header
    ]
    indexes = sorted(txn_indexes_in(directory).items())
    index_data = [data for _, data in indexes] if not names else indexes
    return hashlib.sha256(repr((seen, index_data)).encode()).hexdigest()[:16]


def answers(seed: int, folder: Path, clean: Callable[[Log, CleaningTask], Path]) -> list[str]:
    """Digests of the folder that `clean` returns, after each of two rounds."""
    draw = random.Random(seed)
    codecs = [Compression.NONE] if seed % 2 == 0 else list(Compression)
    directory = folder / "t-0"
    directory.mkdir()
    legacy = legacy_of(draw) if seed % 4 == 3 else b""
    if legacy:
        (directory / f"{0:020d}.log").write_bytes(legacy)
    log = open_log(directory)
    if legacy:
        log.roll(NOW_MS)
    first_dirty = log.log_end_offset if seed % 8 == 7 else 0
    writer = Writer(log)
    found, now_ms = [], NOW_MS + HOUR_MS
    for turn in range(2):
        writer.write(steps_of(draw, 25, codecs=codecs))
        writer.write([Batch([(0, 1)], Compression.NONE, None, False)])
        writer.close_transactions()
        log.roll(writer.stamp)
        for number, segment in enumerate(log.segments):
            old_s = 1_600_000_000 + 3600 * number
            os.utime(segment.path, (old_s, old_s))
        task = task_for(log, first_dirty=first_dirty, now_ms=now_ms)
        log.close()
        found.append(digest(clean(log, task), names=seed % 2 == 0))
        if turn == 0:
            first_dirty = task.upper_bound
            now_ms += DELETE_RETENTION_MS
            log = open_log(directory, clean=True)
            again = Writer(log)
            again.__dict__.update(writer.__dict__, log=log)
            writer = again
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_kwire_leaves_what_apache_kafka_left(seed: int, tmp_path: Path) -> None:
    def clean(log: Log, task: CleaningTask) -> Path:
        clean_here(log, task)
        return log.dir

    assert answers(seed, tmp_path, clean) == kept_answers()[seed]


@pytest.fixture
def apache_cleaner(apache_kafka_libs: Path) -> Iterator[ApacheCleaner]:
    with ApacheCleaner() as cleaner:
        yield cleaner


@pytest.mark.long
def test_apache_kafka_still_leaves_that(
    apache_cleaner: ApacheCleaner, tmp_path: Path, rewrite: bool
) -> None:
    lines = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        turns: list[Path] = []

        def clean(
            log: Log, task: CleaningTask, folder: Path = folder, turns: list[Path] = turns
        ) -> Path:
            copy = folder / f"copy-{len(turns)}" / "t-0"
            turns.append(copy)
            shutil.copytree(log.dir, copy, ignore=shutil.ignore_patterns("*.deleted"))
            assert apache_cleaner.clean(copy, task) == task.upper_bound
            clean_here(log, task)  # the next round goes on from what kwire left
            return copy

        lines.append(f"{seed} {' '.join(answers(seed, folder, clean))}\n")
    if rewrite:
        ANSWERS.write_text("".join(lines))
    assert ANSWERS.read_text() == "".join(lines)
