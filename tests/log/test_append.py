"""Appends of a leader: offsets, epochs, the bytes written into the batch, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import Compression, TimestampType, check_crc, read_header
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    AppendResult,
    LogError,
    append_as_follower,
    end_offset_for_epoch,
    offset_for_timestamp,
)
from tests.log.configs import DEFAULTS, log_config
from tests.log.failing_disk import PiecemealDisk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import Append, MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000


def test_append_assigns_consecutive_offsets(
    open_log: OpenLog, append: Append, read_all: ReadAll
) -> None:
    log = open_log()
    first, second = append(log, 3), append(log, 2)
    assert (first.first_offset, first.last_offset, first.records_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.records_count) == (3, 4, 2)
    assert (second.log_append_time_ms, second.log_start_offset, second.duplicate) == (-1, 0, False)
    assert log.log_end_offset == 5
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]


def test_append_writes_offset_and_epoch_into_the_given_buffer(
    open_log: OpenLog, append: Append, make_batch: MakeBatch
) -> None:
    log = open_log()
    append(log, 7)
    batch = make_batch(2)
    frame = bytearray(b"before") + batch + b"behind"
    log.append(memoryview(frame)[6 : 6 + len(batch)], leader_epoch=4, now_ms=NOW_MS)
    header = read_header(frame, 6)
    assert (header.base_offset, header.partition_leader_epoch) == (7, 4)
    assert frame[:6] == b"before"
    assert frame[-6:] == b"behind"
    assert log.segments.active.path.read_bytes().endswith(frame[6:-6])


@pytest.mark.parametrize("piece_bytes", [1, 30, 70])
def test_append_completes_a_short_write(
    open_log: OpenLog, append: Append, read_all: ReadAll, make_batch: MakeBatch, piece_bytes: int
) -> None:
    """The system may write less than it is given; the rest is written after that."""
    config = log_config(index_interval_bytes=0, segment_bytes=700)
    log = open_log(config, files=PiecemealDisk(piece_bytes))
    for size in (100, 200, 300, 400):
        append(log, size=size)
    batch = make_batch(base_offset=4, partition_leader_epoch=0, size=90)
    append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    log.close()
    killed, stopped = open_log(config), open_log(config, clean=True, recovery_point=5)
    for found in (log, killed, stopped):
        assert [len(record.value or b"") for record in read_all(found)] == [100, 200, 300, 400, 90]
        assert [read_all(found, at)[0].offset for at in range(5)] == [0, 1, 2, 3, 4]


def test_append_records_a_new_leader_epoch_once(
    open_log: OpenLog, append: Append, log_dir: Path
) -> None:
    log = open_log()
    for epoch in (0, 0, 3, 3):
        append(log, 2, leader_epoch=epoch)
    assert log.epochs.entries == [(0, 0), (3, 4)]
    assert (log_dir / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 4\n"
    assert end_offset_for_epoch(log, 0) == (0, 4)
    assert end_offset_for_epoch(log, 3) == (3, 8)


def test_append_sets_log_append_time(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(message_timestamp_type="LogAppendTime"))
    result = append(log, 2, timestamp=5, now_ms=NOW_MS)
    assert result.log_append_time_ms == NOW_MS
    data = log.segments.active.path.read_bytes()
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (5, NOW_MS)
    assert offset_for_timestamp(log, NOW_MS) == (NOW_MS, 0, 0)


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_append_stores_batches_in_the_topics_codec(
    source: Compression, target: str, open_log: OpenLog, append: Append, read_all: ReadAll
) -> None:
    log = open_log(log_config(compression_type=target))
    result = append(
        log, 20, compression=source, producer_id=9, producer_epoch=2, base_sequence=0, size=50
    )
    header = read_header(log.segments.active.path.read_bytes())
    named = {"uncompressed": Compression.NONE, "producer": source}
    wanted = named[target] if target in named else Compression[target.upper()]
    assert header.compression is wanted
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 0)
    assert (result.first_offset, result.last_offset) == (0, 19)
    assert [record.value for record in read_all(log)] == [bytes([i]) * 50 for i in range(20)]
    assert append(
        log, 20, compression=source, producer_id=9, producer_epoch=2, base_sequence=0, size=50
    ).duplicate


def test_duplicate_batch_returns_the_offsets_of_the_first_append(
    open_log: OpenLog, append: Append
) -> None:
    log = open_log()
    append(log, 5)

    def send(sequence: int) -> AppendResult:
        return append(
            log,
            2,
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
            timestamp=NOW_MS - 9,
        )

    first = send(0)
    send(2)
    size = log.segments.size_bytes
    again = send(0)
    assert again.duplicate
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert again.log_append_time_ms == NOW_MS - 9  # Kafka's answer: the batch's largest timestamp
    assert (log.log_end_offset, log.segments.size_bytes) == (9, size)


def test_refused_batch_changes_neither_log_nor_buffer(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(max_message_bytes=100))
    append(log)
    before = (log.log_end_offset, log.segments.size_bytes, log.segments.active.path.read_bytes())
    with pytest.raises(LogError) as caught:
        append(log, 50)
    assert caught.value.error is ErrorCode.MESSAGE_TOO_LARGE
    assert before == (
        log.log_end_offset,
        log.segments.size_bytes,
        log.segments.active.path.read_bytes(),
    )


def test_changed_configs_apply_to_the_next_append(open_log: OpenLog, append: Append) -> None:
    log = open_log()
    append(log, 50)
    log.update_config(log_config(max_message_bytes=100))
    with pytest.raises(LogError, match="MESSAGE_TOO_LARGE"):
        append(log, 50)
    log.update_config(log_config(message_timestamp_type="LogAppendTime"))
    assert append(log, 50).log_append_time_ms == NOW_MS
    log.update_config(DEFAULTS)
    assert append(log, 50).log_append_time_ms == -1


def test_recompressed_batch_gets_log_append_time(
    open_log: OpenLog, append: Append, read_all: ReadAll
) -> None:
    log = open_log(log_config(message_timestamp_type="LogAppendTime", compression_type="gzip"))
    assert append(log, 3, timestamp=5).log_append_time_ms == NOW_MS
    data = log.segments.active.path.read_bytes()
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.compression is Compression.GZIP
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)
    assert [record.timestamp for record in read_all(log)] == [NOW_MS] * 3


def test_append_that_reaches_flush_messages_is_durable(open_log: OpenLog, append: Append) -> None:
    log = open_log(log_config(flush_messages=3))
    append(log, 2)
    assert log.recovery_point == 0
    append(log, 2)
    assert log.recovery_point == 4
    log.flush_inline = False
    append(log, 2)
    assert not log.flush_due
    append(log, 3)
    assert (log.flush_due, log.recovery_point) == (True, 4), "its owner flushes it"


def test_second_flush_without_appends_is_none(open_log: OpenLog, append: Append) -> None:
    log = open_log()
    assert log.prepare_flush() is None
    append(log)
    log.flush()
    assert log.prepare_flush() is None
