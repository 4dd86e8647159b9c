"""A new segment begins by the rules of Apache Kafka (LogSegment.shouldRoll)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, append_as_follower, truncate_to
from tests.log.configs import log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
AGE_MS = 600_000


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_log_rolls_by_size(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(segment_bytes=300))
    size = append(log).size_bytes
    for _ in range(8):
        append(log)
    assert size * 3 <= 300 < size * 4
    assert bases(log) == [0, 3, 6]
    assert [segment.size_bytes for segment in log.segments] == [3 * size] * 3


def test_roll_of_an_empty_segment_adds_none(
    open_log: OpenLog, append: Append, read_all: ReadAll
) -> None:
    log = open_log()
    for _ in range(2):
        log.roll(NOW_MS)
    append(log)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    append(log)
    assert bases(log) == [0, 1]
    assert [record.offset for record in read_all(log)] == [0, 1]
    assert bases(open_log()) == [0, 1]


@pytest.mark.parametrize("first", [0, 1, NOW_MS])
def test_log_rolls_by_record_timestamps(open_log: OpenLog, append: Append, first: int) -> None:
    log = open_log(log_config(segment_ms=AGE_MS))
    append(log, timestamp=first)
    append(log, timestamp=first + AGE_MS)
    append(log, timestamp=first + AGE_MS + 1)
    append(log, timestamp=first)
    assert bases(log) == [0, 2]


def test_log_rolls_by_the_clock_without_timestamps(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(segment_ms=AGE_MS))
    append(log, timestamp=-1)
    append(log, timestamp=-1, now_ms=NOW_MS + AGE_MS)
    append(log, timestamp=-1, now_ms=NOW_MS + AGE_MS + 1)
    assert bases(log) == [0, 2]


def test_reopened_segment_keeps_its_age(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(segment_ms=AGE_MS))
    append(log, timestamp=NOW_MS - AGE_MS)
    log.close()
    log = open_log(log_config(segment_ms=AGE_MS), clean=True, now_ms=NOW_MS)
    append(log, timestamp=NOW_MS + 1)
    assert bases(log) == [0, 1]


def test_age_of_a_reopened_segment_without_timestamps_starts_at_0(
    open_log: OpenLog, append: Append
) -> None:
    config = log_config(segment_ms=AGE_MS)
    append(open_log(config), timestamp=-1)
    for clean in (True, False):
        again = open_log(config, clean=clean, now_ms=NOW_MS + AGE_MS)
        assert not again.rolling.roll_if_due(1, NOW_MS + 2 * AGE_MS)
    assert again.rolling.roll_if_due(1, NOW_MS + 2 * AGE_MS + 1)


def test_log_rolls_when_an_index_is_full(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(segment_index_bytes=24, index_interval_bytes=1))
    for stamp in range(9):
        append(log, timestamp=NOW_MS + stamp)
    # The time index holds two entries and one more to close it; the first batch has none.
    assert bases(log) == [0, 2, 4, 6, 8]


def test_offset_index_keeps_to_its_maximum_size(open_log: OpenLog, append: Append) -> None:
    """With constant timestamps, only the offset index grows."""
    log = open_log(log_config(segment_index_bytes=60, index_interval_bytes=0))
    for _ in range(40):
        append(log)
    assert {segment.offset_index.size_bytes for segment in log.segments.between(0, 32)} == {56}


def test_log_rolls_before_an_offset_too_large_for_the_index(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    for base in (0, 2**31 - 1, 2**31, 2**32):
        batch = make_batch(base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    assert bases(log) == [0, 2**31, 2**32]


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(("end", "rolled"), [(2**31 - 2, []), (2**31 - 1, [2**31 - 1])])
def test_log_rolls_if_the_last_offset_of_a_batch_does_not_fit_the_index(
    open_log: OpenLog, append: Append, make_batch: MakeBatch, read_all: ReadAll,
    leads: bool, end: int, rolled: list[int],
) -> None:  # fmt: skip
    """The first offset of the batch may fit into the index while the last one does not."""
    log = open_log(log_config(index_interval_bytes=0))
    for base in (0, end - 1):
        batch = make_batch(base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    if leads:
        append(log, 2)
    else:
        batch = make_batch(2, base_offset=end, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    assert bases(log) == [0, *rolled]
    found = open_log(log_config(index_interval_bytes=0))  # recovery uses the same rule
    for each in (log, found):
        assert [record.offset for record in read_all(each)] == [0, end - 1, end, end + 1]
        assert [record.offset for record in read_all(each, end + 1)] == [end + 1]


def test_follower_appends_a_first_batch_far_from_the_base_offset(
    open_log: OpenLog, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    """Compaction may have removed all earlier batches."""
    config = log_config(cleanup_policy=frozenset({"compact"}), index_interval_bytes=0)
    log = open_log(config)
    for base in (2**31 + 5, 2**31 + 6, 2**31 + 7):
        batch = make_batch(base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    for each in (log, open_log(config)):
        assert [record.offset for record in read_all(each)] == [2**31 + n for n in (5, 6, 7)]
        assert [record.offset for record in read_all(each, 2**31 + 7)] == [2**31 + 7]


def test_changed_segment_ms_applies_to_the_active_segment(
    open_log: OpenLog, append: Append
) -> None:
    log = open_log()
    append(log)
    log.update_config(log_config(segment_ms=10))
    append(log, timestamp=NOW_MS + 11)
    assert bases(log) == [0, 1]


def test_segment_jitter_ms_rolls_earlier_by_at_most_its_value(
    open_log: OpenLog, append: Append
) -> None:
    config = log_config(segment_ms=AGE_MS, segment_jitter_ms=AGE_MS // 2)
    log = open_log(config)
    append(log, timestamp=NOW_MS)
    append(log, timestamp=NOW_MS + AGE_MS // 2)
    assert bases(log) == [0]
    append(log, timestamp=NOW_MS + AGE_MS + 1)
    assert bases(log) == [0, 2]
    log.update_config(log_config(segment_ms=5, segment_jitter_ms=500))  # more jitter than time
    append(log, timestamp=NOW_MS + AGE_MS + 7)
    assert bases(log) == [0, 2, 3]


def test_upkeep_rolls_an_idle_segment(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(segment_ms=AGE_MS))
    assert not log.rolling.roll_if_due(log.log_end_offset, NOW_MS + 10 * AGE_MS), (
        "an empty segment is left alone"
    )
    append(log)
    assert not log.rolling.roll_if_due(log.log_end_offset, NOW_MS + AGE_MS)
    assert log.rolling.roll_if_due(log.log_end_offset, NOW_MS + AGE_MS + 1)
    assert bases(log) == [0, 1]


def test_idle_segment_without_timestamps_rolls_by_the_clock(
    open_log: OpenLog, append: Append
) -> None:
    log = open_log(log_config(segment_ms=AGE_MS))
    start_ms = NOW_MS
    for base in (1, 2):
        append(log, timestamp=-1, now_ms=start_ms)
        assert not log.rolling.roll_if_due(log.log_end_offset, start_ms + AGE_MS)
        start_ms += AGE_MS + 1
        assert log.rolling.roll_if_due(log.log_end_offset, start_ms)
        assert bases(log)[-1] == base


def test_files_of_a_rolled_segment_have_their_final_size(
    open_log: OpenLog, append: Append, log_dir: Path
) -> None:
    log = open_log(log_config(segment_bytes=300, index_interval_bytes=1))
    for stamp in range(4):
        append(log, timestamp=NOW_MS + stamp)
    names = {path.name: path.stat().st_size for path in log_dir.iterdir()}
    assert names["00000000000000000000.index"] == 2 * 8
    assert names["00000000000000000000.timeindex"] == 2 * 12
    assert names["00000000000000000003.snapshot"] == 10
    assert names["00000000000000000003.index"] == 0


@pytest.mark.parametrize("times", [1, 2])
def test_roll_of_an_empty_log_changes_nothing(open_log: OpenLog, times: int) -> None:
    log = open_log()
    for _ in range(times):
        log.roll(NOW_MS)
    assert bases(log) == [0]


@pytest.mark.parametrize("kept", [0, 1])
def test_truncation_resets_the_age_of_an_emptied_segment_only(
    open_log: OpenLog, append: Append, kept: int
) -> None:
    """The records have no timestamps, so the clock gives the age."""
    log = open_log(log_config(segment_ms=AGE_MS))
    for _ in range(2):
        append(log, timestamp=-1)
    truncate_to(log, kept, NOW_MS + AGE_MS)
    append(log, timestamp=-1, now_ms=NOW_MS + AGE_MS)
    end = log.log_end_offset
    assert log.rolling.roll_if_due(end, NOW_MS + 2 * AGE_MS) == bool(kept)
    assert log.rolling.roll_if_due(log.log_end_offset, NOW_MS + 2 * AGE_MS + 1) != bool(kept)
