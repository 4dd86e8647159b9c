"""The cleanable part of a log and whether it is due equal those of a plain model of the rules."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.log import Log
from kwire.log.compaction.cleanable import Cleanable, examine
from tests.log.compaction.history import NOW_MS, open_log
from tests.log.configs import log_config

CONFIG = log_config(cleanup_policy=frozenset({"compact"}))
AGES_MS = (10, 20, 30, 40)


def drawn(chance: random.Random, folder: Path) -> tuple[Log, list[list[int]]]:
    """A log, and the timestamps of each of its segments' batches; the last one may be empty."""
    log = open_log(folder, CONFIG)
    stamps: list[list[int]] = []
    for number in range(chance.randint(1, 6)):
        if number:
            log.roll(NOW_MS)
        ages = chance.choices(AGES_MS, k=chance.randint(1, 3))
        stamps.append([NOW_MS - age for age in ages])
        for stamp in stamps[-1]:
            made = [Record(0, stamp, b"k", bytes(chance.randint(1, 90)))] * chance.randint(1, 3)
            log.append(build(made), leader_epoch=0, now_ms=NOW_MS)
    if chance.random() < 0.3:
        log.roll(NOW_MS)
        stamps.append([])
    return log, stamps


def expected_cleanable(
    log: Log, stamps: list[list[int]], high_watermark: int, now_ms: int
) -> Cleanable:
    """The result by the rules of Kafka's LogCleanerManager, limited to what is durable."""
    config = log.config
    bases = [segment.base_offset for segment in log.segments]
    sizes = [segment.size_bytes for segment in log.segments]
    start = log.log_start_offset
    known = log.first_dirty_offset
    first_dirty = start
    if known is not None and start <= known <= log.log_end_offset:
        first_dirty = known
    inactive = range(len(bases) - 1)
    from_dirty = [n for n in inactive if bases[n + 1] > first_dirty]
    limits = [high_watermark, log.recovery_point, bases[-1]]
    if log.first_unstable_offset is not None:
        limits.append(log.first_unstable_offset)
    for number in from_dirty:
        lag_ms = config.min_compaction_lag_ms
        if lag_ms > 0 and max(stamps[number]) > now_ms - lag_ms:
            limits.append(bases[number])
    limit = max(first_dirty, min(limits))
    upper_bound = max(base for base in bases if base <= max(limit, bases[0]))
    dirty = [n for n in from_dirty if first_dirty < upper_bound and bases[n] < upper_bound]
    began = [stamps[number][0] for number in from_dirty]
    return Cleanable(
        log,
        first_dirty,
        upper_bound,
        sum(size for base, size in zip(bases, sizes, strict=True) if base < first_dirty),
        sum(sizes[number] for number in dirty),
        bool(began) and min(began) < now_ms - config.max_compaction_lag_ms,
    )


@pytest.mark.parametrize("seed", range(40))
def test_cleanable_part_of_a_log_equals_that_of_the_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log, stamps = drawn(chance, tmp_path / "t-0")
    end = log.log_end_offset
    bases = [segment.base_offset for segment in log.segments]
    log.increment_log_start_offset(chance.choice([0, 0, *range(end + 1)]))
    for _ in range(20):
        log.update_config(
            replace(
                CONFIG,
                min_compaction_lag_ms=chance.choice([0, 10, 11, 20, 30, 41]),
                max_compaction_lag_ms=chance.choice([1, 10, 19, 20, 39, 40, 1 << 60]),
                min_cleanable_dirty_ratio=chance.choice([0.0, 0.5, 1.0]),
            )
        )
        log.durability.recovery_point = chance.choice([end, end, *bases])
        log.first_unstable_offset = chance.choice([None, None, None, *range(end)])
        log.first_dirty_offset = chance.choice([None, -1, *bases, end, end + 1])
        high_watermark = chance.choice([end, end, *range(end + 1)])
        now_ms = NOW_MS + chance.choice([-5, 0, 0, 1])
        wanted = expected_cleanable(log, stamps, high_watermark, now_ms)
        found = examine(log, high_watermark, now_ms)
        assert found == wanted
        assert log.first_dirty_offset in (None, wanted.first_dirty)
        total = wanted.clean_bytes + wanted.dirty_bytes
        share = wanted.dirty_bytes / total if total else 0
        assert found.dirty_ratio == share
        overdue = wanted.is_overdue and wanted.dirty_bytes > 0
        assert found.is_due == (overdue or share > log.config.min_cleanable_dirty_ratio)
