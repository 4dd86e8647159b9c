"""With `preallocate`, the active segment's file has its full size until the segment is rolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.log import Log, truncate_to
from tests.log.configs import log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, OpenLog, ReadAll

CONFIG = log_config(segment_bytes=1000, preallocate=True)


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(directory.glob("*.log"))]


def held(log: Log) -> list[int]:
    return [segment.size_bytes for segment in log.segments]


@pytest.fixture
def log(open_log: OpenLog, append: Append) -> Log:
    """Two segments; the second has room for more."""
    log = open_log(CONFIG)
    while len(log.segments) == 1:
        append(log)
    return log


def test_active_segment_has_its_full_size(log: Log, log_dir: Path) -> None:
    first, last = held(log)
    assert 0 < last < first <= 1000
    assert sizes(log_dir) == [first, 1000]
    assert log.segments.size_bytes == first + last


def test_read_of_a_preallocated_segment_ends_at_its_size(log: Log, read_all: ReadAll) -> None:
    assert len(read_all(log)) == log.log_end_offset


def test_clean_stop_cuts_a_preallocated_segment(
    log: Log, log_dir: Path, open_log: OpenLog, append: Append
) -> None:
    log.close()
    assert sizes(log_dir) == held(log)
    again = open_log(CONFIG, clean=True)
    append(again)
    assert sizes(log_dir) == held(again), "a file that was there is not made longer"
    again.roll(0)
    assert sizes(log_dir) == [*held(again)[:2], 1000]


def test_clean_stop_cuts_an_empty_preallocated_segment(open_log: OpenLog, log_dir: Path) -> None:
    log = open_log(CONFIG)
    assert sizes(log_dir) == [1000]
    log.close()
    assert sizes(log_dir) == [0]


@pytest.mark.parametrize("flushed", [False, True])
def test_recovery_cuts_the_zeros_of_a_preallocated_segment(
    flushed: bool, log: Log, log_dir: Path, open_log: OpenLog, append: Append, read_all: ReadAll
) -> None:
    if flushed:
        log.flush()
    again = open_log(CONFIG, recovery_point=log.recovery_point)
    assert again.log_end_offset == log.log_end_offset
    assert sizes(log_dir) == held(again) == held(log)
    append(again)
    assert len(read_all(again)) == again.log_end_offset


def test_zeros_of_a_segment_are_cut_despite_a_false_clean_marker(
    log: Log, log_dir: Path, open_log: OpenLog
) -> None:
    """A power cut lost the truncation of the file, but not the marker of the clean stop."""
    again = open_log(CONFIG, clean=True)
    assert again.log_end_offset == log.log_end_offset
    assert sizes(log_dir) == held(again)


def test_truncation_cuts_a_preallocated_segment(log: Log, log_dir: Path) -> None:
    truncate_to(log, log.log_end_offset - 1, now_ms=0)
    assert sizes(log_dir) == held(log)


def test_preallocate_applies_from_the_next_segment_on(
    open_log: OpenLog, append: Append, log_dir: Path
) -> None:
    log = open_log(log_config(segment_bytes=1000))
    size = append(log).size_bytes
    log.update_config(CONFIG)
    append(log)
    assert sizes(log_dir) == [2 * size]
    log.roll(0)
    assert sizes(log_dir) == [2 * size, 1000]
