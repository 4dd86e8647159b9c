"""A read returns the region of one segment that Apache Kafka would send."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import Compression, Record, build, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogError,
    append_as_follower,
    delete_expired_segments,
    delete_records,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.log.directory.files import Files
from kwire.log.reading.region import read_exactly
from tests.log.configs import log_config
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, MakeBatch, OpenLog

NOW_MS = 1_700_000_000_000


@pytest.fixture
def log(open_log: OpenLog, append: Append) -> Log:
    """Ten batches of two records: offsets 0-19, all of the same size, in three segments."""
    log = open_log(log_config(segment_bytes=400, index_interval_bytes=0))
    for _ in range(10):
        append(log, 2)
    assert [segment.base_offset for segment in log.segments] == [0, 8, 16]
    return log


@pytest.fixture
def batch_bytes(log: Log) -> int:
    return log.segments.first.size_bytes // 4


def offsets(log: Log, offset: int, max_bytes: int = 1 << 20, **limits: int) -> list[int]:
    """Base offsets of the whole batches that a fetch gets."""
    region = log.read(
        offset,
        max_bytes,
        max_offset=limits.get("max_offset", log.log_end_offset),
        min_one_batch=bool(limits.get("min_one_batch", 1)),
    )
    return [header.base_offset for _, header in iter_batches(region.read())] if region else []


def test_read_from_a_batch_start_returns_the_rest_of_the_segment(log: Log) -> None:
    assert offsets(log, 0) == [0, 2, 4, 6]
    assert offsets(log, 4) == [4, 6]
    assert offsets(log, 8) == [8, 10, 12, 14]
    assert offsets(log, 16) == [16, 18]


def test_read_from_within_a_batch_returns_the_whole_batch(log: Log) -> None:
    assert offsets(log, 5) == [4, 6]


def test_read_at_the_log_end_returns_none(log: Log) -> None:
    assert log.read(20, 100, max_offset=20, min_one_batch=True) is None


@pytest.mark.parametrize("offset", [-1, 21])
def test_read_outside_the_log_is_out_of_range(log: Log, offset: int) -> None:
    with pytest.raises(LogError) as caught:
        log.read(offset, 100, max_offset=20, min_one_batch=True)
    assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_read_before_the_log_start_is_out_of_range(log: Log) -> None:
    delete_records(log, 5, high_watermark=20)
    with pytest.raises(LogError, match="OFFSET_OUT_OF_RANGE"):
        log.read(4, 100, max_offset=20, min_one_batch=True)
    assert offsets(log, 5) == [4, 6]


@pytest.mark.parametrize(
    ("max_offset", "found"),
    [(0, []), (1, []), (2, [0]), (5, [0, 2]), (6, [0, 2, 4]), (8, [0, 2, 4, 6]), (9, [0, 2, 4, 6])],
)
def test_read_returns_nothing_from_max_offset_on(
    log: Log, max_offset: int, found: list[int]
) -> None:
    for _ in range(2):  # the second read uses the remembered position
        assert offsets(log, 0, max_offset=max_offset) == found


def test_read_handles_a_max_offset_in_another_segment(log: Log) -> None:
    assert offsets(log, 10, max_offset=18) == [10, 12, 14]
    assert offsets(log, 16, max_offset=18) == [16]
    assert offsets(log, 17, max_offset=12) == []


def test_read_is_cut_at_max_bytes_within_a_batch(log: Log, batch_bytes: int) -> None:
    region = log.read(0, batch_bytes + 10, max_offset=20, min_one_batch=True)
    assert region is not None
    assert region.size_bytes == batch_bytes + 10
    assert offsets(log, 0, batch_bytes + 10) == [0]


def test_read_returns_a_large_first_batch_whole(log: Log, batch_bytes: int) -> None:
    region = log.read(2, 1, max_offset=20, min_one_batch=True)
    assert region is not None
    assert (region.position, region.size_bytes) == (batch_bytes, batch_bytes)


def test_read_leaves_out_a_first_batch_above_max_bytes(log: Log, batch_bytes: int) -> None:
    for max_bytes in (0, 10, batch_bytes - 1):
        assert log.read(2, max_bytes, max_offset=20, min_one_batch=False) is None
    region = log.read(2, batch_bytes, max_offset=20, min_one_batch=False)
    assert region is not None
    assert region.size_bytes == batch_bytes


def test_reader_at_the_log_end_continues_after_a_roll(
    open_log: OpenLog, append: Append, log: Log
) -> None:
    """The remembered end of a segment must not hide the next segment."""
    assert offsets(log, 20) == []
    for offset in range(20, 60, 2):
        append(log, 2)
        assert offsets(log, offset) == [offset]
        assert offsets(log, offset + 2) == []


def test_region_is_readable_after_its_segment_is_removed(log: Log) -> None:
    region = log.read(0, 1 << 20, max_offset=20, min_one_batch=True)
    assert region is not None
    before = region.read()
    log.update_config(log_config(retention_bytes=0, file_delete_delay_ms=0))
    delete_expired_segments(log, NOW_MS, 20)
    for removal in log.storage.removals:
        for path in removal.paths:
            path.unlink()
    assert log.log_start_offset == 20
    assert region.read() == before
    assert os.pread(region.fileno(), 10, region.position) == before[:10]


def test_files_are_closed_when_too_many_are_open(
    open_log: OpenLog, append: Append, log: Log
) -> None:
    log.close()
    again = open_log(log_config(segment_bytes=400), clean=True, open_files=1)
    for _ in range(2):
        for offset in range(0, 20, 2):
            assert offsets(again, offset)[0] == offset
            read = again.segments.floor(offset)
            assert read is not None
            assert read.file is not None, "the one that was needed last"
    assert sum(segment.file is not None for segment in again.segments) == 1
    append(again, 2)
    assert offsets(again, 20) == [20]


def test_read_skips_a_gap_in_the_offsets(open_log: OpenLog, make_batch: MakeBatch) -> None:
    """As after compaction: 0 and 5-6 in one segment, then a segment that begins with 20."""
    log = open_log(log_config(segment_bytes=200, index_interval_bytes=0))
    for base, count in ((0, 1), (5, 2), (20, 1)):
        batch = make_batch(count, base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 20]
    assert offsets(log, 1) == [5]
    assert offsets(log, 7) == [20]
    assert offsets(log, 20) == [20]
    assert log.log_end_offset == 21


def test_remembered_positions_are_limited(log: Log, append: Append) -> None:
    for _ in range(300):
        append(log, 2)
        offsets(log, log.log_end_offset)
    assert len(log.reader.positions) <= 256


def test_read_up_to_an_offset_in_a_gap_between_segments(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    """For example a follower's last stable offset between the records of two segments."""
    log = open_log(log_config(segment_bytes=200, index_interval_bytes=0))
    for base in (0, 1, 10, 11):
        batch = make_batch(base_offset=base, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert offsets(log, 0, max_offset=5) == [0, 1]
    assert offsets(log, 1, max_offset=10) == [1]
    assert offsets(log, 10, max_offset=11) == [10]
    for _ in range(2):  # the second read uses the remembered position
        assert log.read(5, 1 << 20, max_offset=8, min_one_batch=True) is None


def test_disk_error_in_a_timestamp_lookup_is_a_storage_error(
    open_log: OpenLog, append: Append
) -> None:
    disk = FailingDisk(".log", "pread")
    log = open_log(files=disk)
    for number in range(3):
        append(log, timestamp=NOW_MS + number)
    disk.broken = True
    with pytest.raises(LogError) as caught:
        offset_for_timestamp(log, NOW_MS + 1)
    assert caught.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline


def test_largest_timestamp_is_found_in_any_segment(open_log: OpenLog, append: Append) -> None:
    """Segments with older records and an empty segment may follow."""
    log = open_log()
    assert max_timestamp_offset(log) is None
    for number, timestamp in enumerate([5, 3, 9, 9, 2], 1):
        append(log, timestamp=NOW_MS + timestamp)
        log.roll(NOW_MS + number)
    found = max_timestamp_offset(log)
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW_MS + 9, 2)


@pytest.mark.parametrize("codec", Compression)
def test_lookup_by_time_fails_at_a_record_above_the_limit_in_a_compressed_batch(
    open_log: OpenLog, codec: Compression
) -> None:
    """Records before it are found, as are those of other batches."""
    log = open_log()
    for first, sizes in ((0, (5, 5, 500, 5)), (4, (5, 5))):
        kept = [Record(at, NOW_MS + first + at, None, b"x" * size) for at, size in enumerate(sizes)]
        log.append(build(kept, compression=codec), leader_epoch=0, now_ms=NOW_MS)

    def found(ahead_ms: int) -> int | ErrorCode | None:
        try:
            record = offset_for_timestamp(log, NOW_MS + ahead_ms)
        except LogError as error:
            return error.error
        return None if record is None else record.offset

    assert [found(ahead_ms) for ahead_ms in range(7)] == [0, 1, 2, 3, 4, 5, None]
    log.update_config(log_config(max_decompressed_message_bytes=100))
    third = ErrorCode.INVALID_RECORD if codec else 2
    fourth = ErrorCode.INVALID_RECORD if codec else 3
    assert [found(ahead_ms) for ahead_ms in range(7)] == [0, 1, third, fourth, 4, 5, None]


@pytest.mark.parametrize(("large", "offset"), [(2, 1), (0, None)])
def test_lookup_of_the_largest_timestamp_fails_only_if_a_record_above_the_limit_precedes_it(
    open_log: OpenLog, large: int, offset: int | None
) -> None:
    log = open_log()
    stamps = (NOW_MS, NOW_MS + 9, NOW_MS + 9)
    kept = [
        Record(at, stamp, None, b"x" * (500 if at == large else 5))
        for at, stamp in enumerate(stamps)
    ]
    log.append(build(kept, compression=Compression.GZIP), leader_epoch=0, now_ms=NOW_MS)
    log.update_config(log_config(max_decompressed_message_bytes=100))
    if offset is not None:
        found = max_timestamp_offset(log)
        assert found is not None
        assert (found.timestamp, found.offset) == (NOW_MS + 9, offset)
        return
    with pytest.raises(LogError) as caught:
        max_timestamp_offset(log)
    assert caught.value.error is ErrorCode.INVALID_RECORD


def test_time_index_entries_far_apart_are_accepted(
    open_log: OpenLog,
    append: Append,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The check of an entry begins to read shortly before its position."""
    monkeypatch.setattr("kwire.log.reading.time_check.WALKED_BYTES_MAX", 200)
    config = log_config(index_interval_bytes=1000)
    log = open_log(config)
    for number in range(60):
        append(log, timestamp=NOW_MS + number)
    log.close()
    again = open_log(config, clean=True)
    for number in range(60):
        found = offset_for_timestamp(again, NOW_MS + number)
        assert found is not None
        assert (found.timestamp, found.offset) == (NOW_MS + number, number)
    assert "does not fit the log" not in caplog.text


class Pieces(Files):
    """Reads return at most a piece, as a disk or a signal may cause."""

    def pread(self, fd: int, size: int, pos: int) -> bytes:
        return Files.pread(fd, min(size, 7), pos)


def test_read_exactly_joins_short_reads(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(20)))
    file = Pieces().open(path)
    assert read_exactly(Pieces(), file, 3, 14) == bytes(range(3, 17))
    assert read_exactly(Pieces(), file, 3, 15) == bytes(range(3, 18))
    assert read_exactly(Pieces(), file, 10, 100) == bytes(range(10, 20))
