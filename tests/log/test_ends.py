"""The start and end of a log move by retention, DeleteRecords, truncation and replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import read_header
from kwire.codecs.control import ControlType, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogError,
    append_as_follower,
    delete_expired_segments,
    delete_records,
    max_timestamp_offset,
    truncate_fully,
    truncate_to,
)
from kwire.log.directory import checkpoints
from kwire.log.origin import Origin
from tests.log.configs import log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
DELAY_MS = 60_000


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.fixture
def log(open_log: OpenLog, append: Append) -> Log:
    """Segments 0-3, 4-7, 8-11, 12-13; record n has timestamp NOW_MS + n, epoch n // 5."""
    log = open_log(log_config(segment_bytes=320, index_interval_bytes=0))
    for number in range(14):
        append(log, timestamp=NOW_MS + number, leader_epoch=number // 5)
    assert bases(log) == [0, 4, 8, 12]
    return log


class TestRetention:
    def retain(self, log: Log, now_ms: int, high_watermark: int = 14, **configs: int) -> int:
        configs = {"retention_ms": -1, **configs}
        config = log_config(segment_bytes=320, **configs)
        log.update_config(config)
        return delete_expired_segments(log, now_ms, high_watermark)

    def test_retention_ms_counts_from_the_newest_record(self, log: Log) -> None:
        assert self.retain(log, NOW_MS + 1007, retention_ms=1000) == 1
        assert self.retain(log, NOW_MS + 1008, retention_ms=1000) == 1
        assert (log.log_start_offset, bases(log)) == (8, [8, 12])

    def test_retention_removes_the_last_segment_too(self, log: Log) -> None:
        assert self.retain(log, NOW_MS + 10**6, retention_ms=0) == 4
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (14, 14, [14])
        assert self.retain(log, NOW_MS + 10**7, retention_ms=0) == 0

    def test_retention_keeps_segments_above_the_high_watermark(self, log: Log) -> None:
        assert self.retain(log, NOW_MS + 10**6, high_watermark=11, retention_ms=0) == 2
        assert log.log_start_offset == 8

    def test_retention_bytes_removes_the_oldest_segments(self, log: Log) -> None:
        one = log.segments.first.size_bytes
        assert self.retain(log, NOW_MS, retention_bytes=log.segments.size_bytes - one + 1) == 0
        assert self.retain(log, NOW_MS, retention_bytes=log.segments.size_bytes - one) == 1
        assert self.retain(log, NOW_MS, retention_bytes=0) == 3

    def test_compacted_topic_loses_only_segments_before_its_start(self, log: Log) -> None:
        delete_records(log, 9, 14)
        config = log_config(
            cleanup_policy=frozenset({"compact"}), retention_ms=0, retention_bytes=0
        )
        log.update_config(config)
        assert delete_expired_segments(log, NOW_MS + 10**6, 14) == 2
        assert (log.log_start_offset, bases(log)) == (9, [8, 12])

    def test_retention_of_records_without_timestamps_uses_the_file_time(
        self, open_log: OpenLog, append: Append
    ) -> None:
        log = open_log(log_config(retention_ms=1000))
        append(log, timestamp=-1)
        changed_ms = log.segments.active.path.stat().st_mtime_ns // 1_000_000
        assert delete_expired_segments(log, changed_ms + 1000, 1) == 0
        assert delete_expired_segments(log, changed_ms + 1001, 1) == 1

    def test_files_are_renamed_at_once_and_removed_later(self, log: Log, log_dir: Path) -> None:
        self.retain(log, NOW_MS + 1007, retention_ms=1000)
        gone = {path.name for path in log_dir.iterdir() if path.name.endswith(".deleted")}
        assert gone == {
            f"00000000000000000000{s}.deleted" for s in (".log", ".index", ".timeindex")
        }
        assert [removal.due_ms for removal in log.storage.removals] == [NOW_MS + 1007 + DELAY_MS]
        assert {path.name for path in log.storage.removals[0].paths} == gone

    def test_missing_file_does_not_stop_the_removal_of_others(
        self, log: Log, log_dir: Path
    ) -> None:
        (log_dir / "00000000000000000000.index").unlink()
        assert self.retain(log, NOW_MS + 1007, retention_ms=1000) == 1
        left = {path.name for path in log_dir.glob("00000000000000000000.*")}
        assert left == {f"00000000000000000000{s}.deleted" for s in (".log", ".timeindex")}
        assert left == {path.name for path in log.storage.removals[0].paths}

    def test_reopened_log_keeps_its_log_start_offset(self, log: Log, open_log: OpenLog) -> None:
        self.retain(log, NOW_MS + 1007, retention_ms=1000)
        again = open_log()
        assert (again.log_start_offset, again.log_end_offset) == (4, 14)
        assert again.epochs.entries == [(0, 4), (1, 5), (2, 10)]


class TestDeleteRecords:
    def test_delete_records_moves_the_log_start_offset(self, log: Log, read_all: ReadAll) -> None:
        assert delete_records(log, 6, 14) == 6
        assert [record.offset for record in read_all(log)] == list(range(6, 14))
        assert log.epochs.entries == [(1, 6), (2, 10)]
        assert bases(log) == [0, 4, 8, 12]
        assert delete_expired_segments(log, NOW_MS, 14) == 1
        assert bases(log) == [4, 8, 12]

    def test_delete_records_never_moves_the_log_start_back(self, log: Log) -> None:
        delete_records(log, 6, 14)
        assert delete_records(log, 3, 14) == 6

    @pytest.mark.parametrize("offset", [0, 10])
    def test_delete_records_is_allowed_up_to_the_high_watermark(
        self, log: Log, offset: int
    ) -> None:
        assert delete_records(log, offset, 10) == offset

    @pytest.mark.parametrize("offset", [-2, -1, 11])
    def test_delete_records_above_the_high_watermark_is_refused(
        self, log: Log, offset: int
    ) -> None:
        with pytest.raises(LogError) as caught:
            delete_records(log, offset, 10)
        assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_delete_records_of_a_compacted_topic_is_refused(self, log: Log) -> None:
        log.update_config(log_config(cleanup_policy=frozenset({"compact"})))
        with pytest.raises(LogError, match="POLICY_VIOLATION"):
            delete_records(log, 1, 14)
        log.update_config(log_config(cleanup_policy=frozenset({"compact", "delete"})))
        assert delete_records(log, 1, 14) == 1

    def test_transaction_that_ended_before_the_log_start_is_stable(
        self, open_log: OpenLog, append: Append
    ) -> None:
        """Its marker may not be replicated yet, but readers from the log start need no marker."""
        log = open_log()
        append(log, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        abort = control_batch(
            ControlType.ABORT, 0, producer_id=1, producer_epoch=0, timestamp=NOW_MS
        )
        log.append(abort, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        append(log)
        log.increment_log_start_offset(1)
        assert log.first_unstable_offset == 1, "the marker is above the log start"
        log.increment_log_start_offset(2)
        assert log.first_unstable_offset is None


class TestTruncation:
    @pytest.mark.parametrize("offset", [0, 1, 3, 4, 5, 11, 12, 13])
    def test_truncation_removes_batches_that_end_at_or_after_the_offset(
        self, log: Log, offset: int, open_log: OpenLog, read_all: ReadAll, append: Append
    ) -> None:
        assert truncate_to(log, offset, NOW_MS)
        assert log.log_end_offset == offset
        assert bases(log) == [base for base in (0, 4, 8, 12) if base <= offset]
        assert [record.offset for record in read_all(log)] == list(range(offset))
        assert [start for _, start in log.epochs.entries] == [s for s in (0, 5, 10) if s < offset]
        assert checkpoints.decode_epochs(log.epochs.path.read_bytes()) == log.epochs.entries
        again = open_log()
        assert (again.log_end_offset, again.epochs.entries) == (offset, log.epochs.entries)
        log.close()
        again = open_log(clean=True)
        result = append(again, timestamp=NOW_MS + 99, leader_epoch=7)
        assert result.first_offset == offset
        assert again.epochs.entries[-1] == (7, offset)
        assert max_timestamp_offset(again) == (NOW_MS + 99, offset, 7)

    def test_truncation_at_the_log_end_changes_nothing(self, log: Log) -> None:
        log.assign_epoch(9, 14)
        assert not truncate_to(log, 14, NOW_MS)
        assert log.log_end_offset == 14
        assert log.epochs.latest_epoch == 2, "an epoch without a record may be the old leader's"

    def test_truncation_before_the_log_start_removes_everything(self, log: Log) -> None:
        log.update_config(log_config(retention_ms=1000))
        delete_expired_segments(log, NOW_MS + 1007, 14)
        truncate_to(log, 2, NOW_MS)
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (2, 2, [2])

    @pytest.mark.parametrize(("start", "offset"), [(6, 5), (6, 4), (6, 6), (5, 8)])
    def test_truncation_lowers_a_log_start_above_the_new_end(
        self, log: Log, start: int, offset: int
    ) -> None:
        """DeleteRecords moved the start to `start`; the old segments still exist."""
        delete_records(log, start, 14)
        truncate_to(log, offset, NOW_MS)
        assert (log.log_start_offset, log.log_end_offset) == (min(start, offset), offset)
        assert bases(log) == [base for base in (0, 4, 8) if base <= offset]

    def test_truncation_within_a_batch_removes_the_batch(
        self, open_log: OpenLog, append: Append
    ) -> None:
        log = open_log()
        append(log, 2)
        append(log, 4)
        truncate_to(log, 4, NOW_MS)
        # The batch of 2-5 is gone; Kafka's log goes on at the offset that was asked for.
        assert (log.log_end_offset, log.segments.size_bytes) == (
            4,
            log.segments.first.size_bytes,
        )
        assert log.segments.active.next_offset() == 2

    def test_truncation_restores_the_producer_state(
        self, open_log: OpenLog, append: Append
    ) -> None:
        log = open_log()
        for sequence in range(4):
            append(log, producer_id=1, producer_epoch=0, base_sequence=sequence)
        append(log, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        unstable = [log.first_unstable_offset]
        truncate_to(log, 2, NOW_MS)
        unstable.append(log.first_unstable_offset)
        assert unstable == [4, None]
        assert {e.producer_id: e.last_sequence for e in log.producers.entries.values()} == {1: 1}
        assert append(log, producer_id=1, producer_epoch=0, base_sequence=2).first_offset == 2

    def test_truncation_lowers_the_first_dirty_offset(self, log: Log) -> None:
        log.first_dirty_offset = 9
        truncate_to(log, 11, NOW_MS)
        assert log.first_dirty_offset == 9
        truncate_to(log, 5, NOW_MS)
        assert log.first_dirty_offset == 5

    @pytest.mark.parametrize("cuts", [1, 2, 3])
    def test_flush_from_before_a_truncation_does_not_count(self, log: Log, cuts: int) -> None:
        """The number of earlier truncations does not matter."""
        for end in range(cuts, 1, -1):
            truncate_to(log, 10 + end, NOW_MS)
        flush = log.prepare_flush()
        assert flush is not None
        truncate_to(log, 3, NOW_MS)
        flush.run()
        log.flushed(flush)
        assert log.recovery_point <= 3

    def test_truncate_fully_leaves_an_empty_log(
        self, log: Log, append: Append, open_log: OpenLog
    ) -> None:
        truncate_fully(log, 100, NOW_MS)
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (100, 100, [100])
        assert (log.epochs.entries, log.epochs.latest_epoch) == ([], -1)
        assert append(log, leader_epoch=3).first_offset == 100
        again = open_log()
        assert (again.log_start_offset, again.log_end_offset) == (100, 101)
        assert again.epochs.entries == [(3, 100)]

    def test_truncate_fully_keeps_a_given_log_start_offset(self, log: Log) -> None:
        """The leader's records begin before those of the follower."""
        truncate_fully(log, 100, NOW_MS, log_start_offset=90)
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (90, 100, [100])


class TestFollower:
    def batches(self, make_batch: MakeBatch, *spec: tuple[int, int, int]) -> bytearray:
        """(base offset, records, leader epoch) of each."""
        return bytearray(
            b"".join(
                make_batch(count, base_offset=base, partition_leader_epoch=epoch)
                for base, count, epoch in spec
            )
        )

    def test_follower_keeps_offsets_and_epochs_of_the_leader(
        self, open_log: OpenLog, make_batch: MakeBatch
    ) -> None:
        log = open_log()
        data = self.batches(make_batch, (0, 2, 1), (5, 1, 1), (6, 3, 4))
        before = bytes(data)
        result = append_as_follower(log, data, leader_epoch=4, now_ms=NOW_MS)
        assert result is not None
        assert (result.first_offset, result.last_offset, result.records_count) == (0, 8, 6)
        assert log.segments.active.path.read_bytes() == before
        assert log.epochs.entries == [(1, 0), (4, 6)]

    def test_follower_leaves_out_an_incomplete_batch(
        self, open_log: OpenLog, make_batch: MakeBatch
    ) -> None:
        log = open_log()
        data = self.batches(make_batch, (0, 2, 0), (2, 2, 0))
        append_as_follower(log, data[:-1], leader_epoch=0, now_ms=NOW_MS)
        assert log.log_end_offset == 2
        assert append_as_follower(log, data[:30], leader_epoch=0, now_ms=NOW_MS) is None

    def test_follower_leaves_out_batches_of_later_epochs(
        self, open_log: OpenLog, make_batch: MakeBatch
    ) -> None:
        log = open_log()
        data = self.batches(make_batch, (0, 1, 0), (1, 1, 3), (2, 1, 0))
        append_as_follower(log, data, leader_epoch=2, now_ms=NOW_MS)
        assert log.log_end_offset == 1

    def test_follower_keeps_batches_before_an_invalid_one(
        self, open_log: OpenLog, make_batch: MakeBatch
    ) -> None:
        log = open_log()
        data = self.batches(make_batch, (0, 1, 0), (1, 1, 0))
        data[-1] ^= 1
        with pytest.raises(LogError, match="CORRUPT_MESSAGE"):
            append_as_follower(log, data, leader_epoch=0, now_ms=NOW_MS)
        assert log.log_end_offset == 1
        with pytest.raises(LogError, match="OFFSET_OUT_OF_RANGE"):
            append_as_follower(
                log, self.batches(make_batch, (1, 1, 0), (1, 1, 0)), leader_epoch=0, now_ms=NOW_MS
            )
        assert log.log_end_offset == 2

    def test_follower_appends_batches_of_many_segments_at_once(
        self, open_log: OpenLog, make_batch: MakeBatch
    ) -> None:
        log = open_log(log_config(segment_bytes=300))
        data = self.batches(make_batch, *((base, 1, 0) for base in range(10)))
        append_as_follower(log, data, leader_epoch=0, now_ms=NOW_MS)
        assert bases(log) == [0, 3, 6, 9]
        for segment in log.segments:
            assert read_header(segment.path.read_bytes()).base_offset == segment.base_offset
