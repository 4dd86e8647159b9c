"""Retention removes the segments that a plain list says, by each limit and by all together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, delete_expired_segments, delete_records
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS

if TYPE_CHECKING:
    from tests.log.conftest import Append, OpenLog

AGES_MS = (50, 40, 90, 10, 20)
"""Of the five segments of three records each; retention goes from the front only."""


@pytest.fixture
def log(open_log: OpenLog, append: Append) -> Log:
    log = open_log(log_config(retention_ms=-1))
    for number, age_ms in enumerate(AGES_MS):
        if number:
            log.roll(NOW_MS)
        append(log, 3, size=10 * (number + 1), timestamp=NOW_MS - age_ms)
    log.flush()
    return log


def gone(log: Log, limit_bytes: int, limit_ms: int, high_watermark: int) -> int:
    """The number of removed segments."""
    sizes = [segment.size_bytes for segment in log.segments]
    ends = [3 * number for number in range(1, len(sizes) + 1)]
    committed = sum(end <= high_watermark for end in ends)
    number = sum(end <= log.log_start_offset for end in ends[:-1])
    number = min(number, committed)
    if limit_bytes >= 0:
        while number < committed and sum(sizes[number + 1 :]) >= limit_bytes:
            number += 1
    if limit_ms >= 0:
        while number < committed and AGES_MS[number] > limit_ms:
            number += 1
    return number


@pytest.mark.parametrize("start", [0, 2, 3, 4, 14, 15])
@pytest.mark.parametrize("limit_ms", [-1, 0, 39, 40, 49, 50])
def test_retention_removes_segments_by_age_and_log_start(
    log: Log, start: int, limit_ms: int
) -> None:
    log.update_config(log_config(retention_ms=limit_ms))
    delete_records(log, start, 15)
    wanted = gone(log, -1, limit_ms, 15)
    assert delete_expired_segments(log, NOW_MS, 15) == wanted
    assert log.segments.first.base_offset == 3 * wanted
    assert (log.log_start_offset, log.log_end_offset) == (max(start, 3 * wanted), 15)
    assert delete_expired_segments(log, NOW_MS, 15) == 0


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("kept", range(6))
def test_retention_bytes_keeps_at_least_its_limit(log: Log, kept: int, more: int) -> None:
    """A segment is removed only if the rest has at least the limit."""
    sizes = [segment.size_bytes for segment in log.segments]
    limit_bytes = sum(sizes[5 - kept :]) + more
    log.update_config(log_config(retention_bytes=limit_bytes, retention_ms=-1))
    wanted = gone(log, limit_bytes, -1, 15)
    assert delete_expired_segments(log, NOW_MS, 15) == wanted
    assert log.log_start_offset == 3 * wanted


@pytest.mark.parametrize(("limit_ms", "goes"), [(NOW_MS, False), (NOW_MS - 1, True)])
def test_retention_counts_timestamp_0(
    open_log: OpenLog, append: Append, limit_ms: int, goes: bool
) -> None:
    """0 is a timestamp; -1 means that there is none."""
    log = open_log(log_config(retention_ms=limit_ms))
    append(log, timestamp=0)
    assert delete_expired_segments(log, NOW_MS, 1) == goes


@pytest.mark.parametrize("high_watermark", [0, 2, 3, 5, 6, 14, 15])
def test_retention_keeps_unreplicated_segments(log: Log, high_watermark: int) -> None:
    log.update_config(log_config(retention_bytes=0, retention_ms=-1))
    wanted = gone(log, 0, -1, high_watermark)
    assert delete_expired_segments(log, NOW_MS, high_watermark) == wanted
    assert log.log_start_offset == 3 * wanted


def test_retention_applies_all_limits_together(log: Log) -> None:
    """A limit does not count segments that another limit removed. The result counts all."""
    delete_records(log, 4, 15)
    limit_bytes = sum([segment.size_bytes for segment in log.segments][2:])
    log.update_config(log_config(retention_bytes=limit_bytes, retention_ms=60))
    assert delete_expired_segments(log, NOW_MS, 15) == 3
    assert log.log_start_offset == 9


@pytest.mark.parametrize(("policy", "may"), [("delete", 1), ("compact,delete", 1), ("compact", 0)])
def test_delete_records_is_refused_for_only_compacted_topics(
    log: Log, policy: str, may: int
) -> None:
    log.update_config(log_config(cleanup_policy=frozenset(policy.split(","))))
    if may:
        assert delete_records(log, 4, 15) == 4
    else:
        with pytest.raises(LogError) as refused:
            delete_records(log, 4, 15)
        assert refused.value.error is ErrorCode.POLICY_VIOLATION
    assert log.log_start_offset == (4 if may else 0)


@pytest.mark.parametrize(("offset", "start"), [(-1, None), (0, 0), (1, 1), (9, 9), (10, None)])
def test_delete_records_is_limited_by_the_high_watermark(
    log: Log, offset: int, start: int | None
) -> None:
    if start is None:
        with pytest.raises(LogError) as refused:
            delete_records(log, offset, 9)
        assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        assert delete_records(log, offset, 9) == start
    assert log.log_start_offset == (start or 0)
