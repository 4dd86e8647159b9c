"""Refused batches have the error codes, record errors and log start offsets of Apache Kafka 4.4.0.

Each case was sent to Apache Kafka, which answered what stands here: with some refusals it
tells the log start offset (TOLD), with others it does not.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import crc32c
import pytest

from kwire.codecs.batches import Compression, Record, TimestampType, build, check_crc, read_header
from kwire.codecs.errors import ErrorCode
from kwire.log import AppendResult, Log, LogConfig, LogError, Origin, max_timestamp_offset
from tests.log.configs import DEFAULTS, log_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.log.conftest import OpenLog

NOW_MS = 1_700_000_000_000
TOLD, NOT_TOLD = 9, -1

OFFSET_POS, LENGTH_POS, MAGIC_POS, ATTRIBUTES_POS, DELTA_POS = 0, 8, 16, 21, 23
MAX_TIMESTAMP_POS, COUNT_POS = 35, 57


def plain(count: int = 1, timestamp: int = NOW_MS, key: bytes | None = b"k") -> bytearray:
    return build([Record(i, timestamp, key, b"v", []) for i in range(count)])


def stamped(*timestamps: int) -> bytearray:
    return build([Record(i, at, b"k", b"v", []) for i, at in enumerate(timestamps)])


def sealed(batch: bytearray) -> bytearray:
    """The batch with its CRC computed again."""
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return batch


def with_field(batch: bytearray, position: int, form: str, value: int) -> bytearray:
    struct.pack_into(form, batch, position, value)
    return sealed(batch) if position > MAGIC_POS else batch


def counts(batch: bytearray, count: int, delta: int) -> bytearray:
    return with_field(with_field(batch, COUNT_POS, ">i", count), DELTA_POS, ">i", delta)


def attributes(batch: bytearray, value: int) -> bytearray:
    return with_field(batch, ATTRIBUTES_POS, ">h", value)


class Case(NamedTuple):
    name: str
    batch: Callable[[], bytearray]
    error: ErrorCode
    log_start_offset: int
    config: LogConfig = DEFAULTS
    bad_records: tuple[int, ...] = ()


E = ErrorCode
COMPACTED = log_config(cleanup_policy=frozenset({"compact"}))
RECENT = log_config(message_timestamp_before_max_ms=1000)
LOG_APPEND_TIME = log_config(message_timestamp_type="LogAppendTime")
SMALL = log_config(max_message_bytes=200)
SMALL_RECORDS = log_config(max_decompressed_message_bytes=100)
LARGEST_VALUE = 93
"""The value of a record of 100 bytes without a key; its own size does not count."""


def sized(*sizes: int, codec: Compression = Compression.GZIP, **options: int) -> bytearray:
    """A batch of records without a key, with values of these sizes."""
    kept = [Record(i, NOW_MS, None, b"x" * size, []) for i, size in enumerate(sizes)]
    return build(kept, compression=codec, **options)  # type: ignore[arg-type]  # by name


def too_large_in(codec: Compression) -> Case:
    """The case of a batch in this codec whose second record is too large by a byte."""
    return Case(f"a record too large in {codec.name}",
                lambda: sized(5, LARGEST_VALUE + 1, codec=codec), E.INVALID_RECORD, TOLD,
                SMALL_RECORDS)  # fmt: skip


REFUSED = [
    Case("base offset", lambda: with_field(plain(), OFFSET_POS, ">q", 5), E.INVALID_RECORD, TOLD),
    Case("control", lambda: build([Record(0, 0, b"", b"", [])], control=True), E.INVALID_RECORD, 9),
    Case("count above delta", lambda: counts(plain(2), 3, 1), E.INVALID_RECORD, TOLD),
    Case("count below delta", lambda: counts(plain(2), 2, 2), E.INVALID_RECORD, TOLD),
    Case("no records", lambda: counts(plain(2), 0, -1), E.INVALID_RECORD, TOLD),
    Case("negative count", lambda: counts(plain(2), -1, -2), E.INVALID_RECORD, TOLD),
    Case("codec 5", lambda: attributes(plain(), 5), E.UNKNOWN_SERVER_ERROR, TOLD),
    Case("codec 7", lambda: attributes(plain(), 7), E.UNKNOWN_SERVER_ERROR, TOLD),
    Case("stamped, no time", lambda: attributes(plain(1, -1), 8), E.INVALID_TIMESTAMP, 9,
         bad_records=(0,)),
    Case("stamped, log append time", lambda: attributes(plain(), 8), E.INVALID_TIMESTAMP, TOLD,
         LOG_APPEND_TIME, (0,)),
    Case("future", lambda: stamped(NOW_MS, NOW_MS + 10**7), E.INVALID_TIMESTAMP, TOLD,
         bad_records=(1,)),
    Case("past", lambda: stamped(NOW_MS - 5000, NOW_MS, NOW_MS - 1001), E.INVALID_TIMESTAMP, TOLD,
         RECENT, (0, 2)),
    Case("no key", lambda: build([Record(i, NOW_MS, key, b"", []) for i, key in
         enumerate((None, b"k", None))]), E.INVALID_RECORD, TOLD, COMPACTED, (0, 2)),
    Case("no key, future", lambda: build([Record(0, NOW_MS, None, b"", []),
         Record(1, NOW_MS + 10**7, b"k", b"", [])]), E.INVALID_TIMESTAMP, TOLD, COMPACTED, (0, 1)),
    Case("two batches", lambda: plain() + plain(), E.INVALID_RECORD, NOT_TOLD),
    Case("zeros behind", lambda: plain() + bytes(40), E.CORRUPT_MESSAGE, NOT_TOLD),
    Case("cut short", lambda: plain()[:-1], E.INVALID_RECORD, NOT_TOLD),
    Case("empty", lambda: bytearray(), E.INVALID_RECORD, NOT_TOLD),
    Case("ten bytes", lambda: plain()[:10], E.INVALID_RECORD, NOT_TOLD),
    Case("zeros", lambda: bytearray(70), E.CORRUPT_MESSAGE, NOT_TOLD),
    Case("magic 3", lambda: with_field(plain(), MAGIC_POS, ">b", 3), E.CORRUPT_MESSAGE, NOT_TOLD),
    Case("magic 1", lambda: with_field(plain(), MAGIC_POS, ">b", 1), E.INVALID_RECORD, NOT_TOLD),
    Case("CRC", lambda: bytearray(b"".join((plain()[:-1], b"\xff"))), E.CORRUPT_MESSAGE, NOT_TOLD),
    Case("CRC, compacted", lambda: bytearray(b"".join((plain()[:-1], b"\xff"))), E.CORRUPT_MESSAGE,
         NOT_TOLD, COMPACTED),
    Case("too large", lambda: plain(30), E.MESSAGE_TOO_LARGE, NOT_TOLD, SMALL),
    Case("too large and CRC", lambda: plain(30)[:-1] + b"\xff", E.MESSAGE_TOO_LARGE, -1, SMALL),
    Case("larger than a segment", lambda: plain(30), E.RECORD_LIST_TOO_LARGE, NOT_TOLD,
         log_config(segment_bytes=200)),
    Case("short header", lambda: with_field(plain()[:42], LENGTH_POS, ">i", 30),
         E.CORRUPT_MESSAGE, NOT_TOLD),
    Case("no sequence", lambda: build([Record(0, NOW_MS, b"", b"", [])], producer_id=5,
         producer_epoch=0), E.INVALID_RECORD, TOLD),
    Case("no sequence, producer 0", lambda: build([Record(0, NOW_MS, b"", b"", [])], producer_id=0,
         producer_epoch=0), E.INVALID_RECORD, TOLD),
    Case("an epoch below none", lambda: build([Record(0, NOW_MS, b"", b"", [])], producer_id=5,
         producer_epoch=-2, base_sequence=0), E.INVALID_PRODUCER_EPOCH, TOLD),
    Case("a record less than it says", lambda: counts(plain(2), 3, 2), E.INVALID_RECORD, TOLD),
    Case("a record more than it says", lambda: counts(plain(2), 1, 0), E.INVALID_RECORD, TOLD),
    Case("more records than bytes", lambda: counts(plain(9), 2**31 - 1, 2**31 - 2),
         E.INVALID_RECORD, TOLD),
    Case("more records than so much gzip can hold", lambda: counts(
         build([Record(0, NOW_MS, b"", b"", [])], compression=Compression.GZIP), 2**31 - 1,
         2**31 - 2), E.INVALID_RECORD, TOLD),
    Case("a size that lies", lambda: with_field(plain(2), 61, ">b", 2), E.INVALID_RECORD, TOLD),
    *map(too_large_in, list(Compression)[1:]),
    Case("a record too large, no key", lambda: sized(5, 500), E.INVALID_RECORD, TOLD,
         log_config(max_decompressed_message_bytes=100, cleanup_policy=frozenset({"compact"}))),
    Case("a record too large, too late", lambda: sized(500), E.INVALID_RECORD, TOLD,
         log_config(max_decompressed_message_bytes=100, message_timestamp_after_max_ms=-10**6)),
    Case("a record too large to be compressed again", lambda: sized(500), E.INVALID_RECORD, TOLD,
         log_config(max_decompressed_message_bytes=100, compression_type="zstd")),
    Case("a record too large of a producer", lambda: sized(500, producer_id=5, producer_epoch=0,
         base_sequence=0), E.INVALID_RECORD, TOLD, SMALL_RECORDS),
    Case("a record less than it says, limited", lambda: counts(sized(5, 5), 3, 2),
         E.INVALID_RECORD, TOLD, SMALL_RECORDS),
    Case("a record more than it says, limited", lambda: counts(sized(5, 5), 1, 0),
         E.INVALID_RECORD, TOLD, SMALL_RECORDS),
    Case("says gzip, is not", lambda: attributes(plain(), 1), E.INVALID_RECORD, TOLD, COMPACTED),
]  # fmt: skip


@pytest.fixture
def log_at_9(open_log: OpenLog) -> Log:
    return open_log(log_start_offset=TOLD)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_invalid_batch_is_refused_with_kafkas_error(case: Case, log_at_9: Log) -> None:
    log_at_9.update_config(case.config)
    with pytest.raises(LogError) as caught:
        log_at_9.append(case.batch(), leader_epoch=0, now_ms=NOW_MS)
    error = caught.value
    assert error.error is case.error, error
    assert error.message is None or not case.name.startswith("a record"), error.message
    assert error.log_start_offset == case.log_start_offset
    assert tuple(number for number, _ in error.record_errors) == case.bad_records
    assert (log_at_9.log_end_offset, log_at_9.segments.size_bytes) == (TOLD, 0)


def test_refusals_have_kafkas_messages_for_clients(log_at_9: Log) -> None:
    log_at_9.update_config(COMPACTED)
    with pytest.raises(LogError) as caught:
        log_at_9.append(plain(4, key=None), leader_epoch=0, now_ms=NOW_MS)
    one = "Compacted topic cannot accept message without key in topic partition t-0"
    assert caught.value.record_errors == [(number, one) for number in range(4)]
    shown = ", ".join(f"RecordError(batchIndex={n}, message='{one}')" for n in range(3))
    assert caught.value.message == (
        "One or more records have been rejected due to 4 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    with pytest.raises(LogError) as caught:
        log_at_9.append(stamped(NOW_MS + 3_600_001), leader_epoch=0, now_ms=NOW_MS)
    assert caught.value.message == (
        "One or more records have been rejected due to invalid timestamp"
    )
    assert caught.value.record_errors == [
        (
            0,
            f"Timestamp {NOW_MS + 3_600_001} of message with offset 0 is out of range. The "
            f"timestamp should be within [{NOW_MS - (2**63 - 1)}, {NOW_MS + 3_600_000}]",
        )
    ]
    for magic in (3, -1):
        batch = with_field(plain(), MAGIC_POS, ">b", magic)
        with pytest.raises(LogError) as caught:
            log_at_9.append(batch, leader_epoch=0, now_ms=NOW_MS)
        assert caught.value.message == f"Invalid magic found in record: {magic}"
    with pytest.raises(LogError) as caught:
        log_at_9.append(plain() + bytes(40), leader_epoch=0, now_ms=NOW_MS)
    assert caught.value.message is None
    log_at_9.update_config(LOG_APPEND_TIME)
    with pytest.raises(LogError) as caught:
        log_at_9.append(attributes(plain(), 8), leader_epoch=0, now_ms=NOW_MS)
    assert caught.value.record_errors == [
        (
            0,
            f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW_MS}, "
            "key=1 bytes, value=1 bytes). Producer should not set timestamp type to LogAppendTime.",
        )
    ]
    batch = build([Record(0, NOW_MS, None, None, [])])
    with pytest.raises(LogError) as caught:
        log_at_9.append(attributes(batch, 8), leader_epoch=0, now_ms=NOW_MS)
    assert "key=0 bytes, value=0 bytes" in caught.value.record_errors[0][1]


def test_undefined_attributes_are_cleared_when_rewritten(log_at_9: Log) -> None:
    log_at_9.append(attributes(plain(), 0x4000), leader_epoch=0, now_ms=NOW_MS)
    log_at_9.update_config(LOG_APPEND_TIME)
    log_at_9.append(attributes(plain(), 0x4000), leader_epoch=0, now_ms=NOW_MS)
    data = log_at_9.segments.active.path.read_bytes()
    first = read_header(data)
    assert first.attributes == 0x4000
    assert read_header(data, first.size_bytes).attributes == 8


ACCEPTED: list[tuple[str, Callable[[], bytearray], LogConfig]] = [
    ("plain", plain, DEFAULTS),
    ("no timestamps", lambda: plain(2, -1), DEFAULTS),
    ("no timestamps, bounded", lambda: plain(2, -1), RECENT),
    ("a timestamp below none", lambda: plain(1, -5), DEFAULTS),
    ("ten bytes behind", lambda: plain() + bytes(10), DEFAULTS),
    ("a torn batch behind", lambda: plain() + plain()[:50], DEFAULTS),
    ("an unknown flag", lambda: attributes(plain(), 0x4000), DEFAULTS),
    ("stamped by the client", lambda: attributes(plain(), 8), DEFAULTS),
    ("delete horizon", lambda: build([Record(0, NOW_MS, b"", b"", [])], delete_horizon_ms=NOW_MS),
     DEFAULTS),
    ("keys", lambda: plain(3), COMPACTED),
    ("as large as may be", plain, log_config(max_message_bytes=len(plain()))),
    ("as large as a segment", plain, log_config(segment_bytes=len(plain()))),
    ("as late as may be", lambda: plain(1, NOW_MS + 3_600_000), DEFAULTS),
    ("as early as may be", lambda: plain(1, NOW_MS - 1000), RECENT),
    ("old on log append time", lambda: plain(1, 0), LOG_APPEND_TIME),
    ("as large as a record may be", lambda: sized(*[LARGEST_VALUE] * 20), SMALL_RECORDS),
    ("not compressed", lambda: sized(500, codec=Compression.NONE), SMALL_RECORDS),
    ("a large record without a limit", lambda: sized(500), DEFAULTS),
    ("producer without epoch", lambda: build([Record(0, NOW_MS, b"", b"", [])], producer_id=5,
     base_sequence=0), DEFAULTS),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "config"), [case[1:] for case in ACCEPTED],
                         ids=[case[0] for case in ACCEPTED])  # fmt: skip
def test_valid_batch_is_accepted(
    batch: Callable[[], bytearray], config: LogConfig, log_at_9: Log
) -> None:
    log_at_9.update_config(config)
    result = log_at_9.append(batch(), leader_epoch=0, now_ms=NOW_MS)
    assert result.first_offset == TOLD
    data = log_at_9.segments.active.path.read_bytes()
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.size_bytes == len(data) == result.size_bytes


@pytest.mark.parametrize("claimed", [-1, NOW_MS - 1, NOW_MS + 10**9])
def test_largest_timestamp_is_computed_if_the_header_is_wrong(claimed: int, log_at_9: Log) -> None:
    """Sarama leaves the largest timestamp to the broker."""
    batch = with_field(stamped(NOW_MS, NOW_MS + 5, NOW_MS + 2), MAX_TIMESTAMP_POS, ">q", claimed)
    log_at_9.append(batch, leader_epoch=0, now_ms=NOW_MS)
    data = log_at_9.segments.active.path.read_bytes()
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.max_timestamp == NOW_MS + 5
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert max_timestamp_offset(log_at_9) == (NOW_MS + 5, 10, 0)


def test_single_record_sets_the_largest_timestamp(log_at_9: Log) -> None:
    batch = with_field(stamped(NOW_MS), MAX_TIMESTAMP_POS, ">q", NOW_MS + 5)
    log_at_9.append(batch, leader_epoch=0, now_ms=NOW_MS)
    header = read_header(log_at_9.segments.active.path.read_bytes())
    assert header.max_timestamp == NOW_MS


def test_timestamp_type_of_a_client_is_reset(log_at_9: Log) -> None:
    log_at_9.append(attributes(plain(), 8), leader_epoch=0, now_ms=NOW_MS)
    header = read_header(log_at_9.segments.active.path.read_bytes())
    assert header.timestamp_type is TimestampType.CREATE_TIME


def test_control_batches_are_accepted_from_coordinators_only(log_at_9: Log) -> None:
    log_at_9.update_config(COMPACTED)
    batch = with_field(plain(2), OFFSET_POS, ">q", 77)
    result = log_at_9.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert (result.first_offset, result.last_offset) == (TOLD, 10)


@pytest.mark.parametrize(
    ("batch", "config"),
    [(case.batch, case.config) for case in REFUSED] + [case[1:] for case in ACCEPTED],
    ids=[case.name for case in REFUSED] + [case[0] for case in ACCEPTED],
)
def test_fast_and_thorough_validation_agree(
    batch: Callable[[], bytearray], config: LogConfig, open_log: OpenLog, log_dir: Path
) -> None:
    """The fast path of `append` must not accept a batch that the thorough validation refuses."""
    answers: list[tuple[AppendResult | None, ErrorCode | None]] = []
    for quick in (True, False):
        shutil.rmtree(log_dir)
        log_dir.mkdir()
        log = open_log(config, log_start_offset=TOLD)
        if not quick:
            log._plain.close()
        try:
            answers.append((log.append(batch(), leader_epoch=0, now_ms=NOW_MS), None))
        except LogError as error:
            answers.append((None, error.error))
    assert answers[0] == answers[1]


def test_batch_too_large_after_recompression_is_refused(log_at_9: Log) -> None:
    log_at_9.update_config(log_config(compression_type="uncompressed", max_message_bytes=400))
    batch = build(
        [Record(i, NOW_MS, b"k", bytes(100), []) for i in range(10)], compression=Compression.GZIP
    )
    assert len(batch) < 200
    with pytest.raises(LogError, match="MESSAGE_TOO_LARGE"):
        log_at_9.append(batch, leader_epoch=0, now_ms=NOW_MS)


def test_largest_timestamp_below_minus_one_is_stored_as_minus_one(log_at_9: Log) -> None:
    log_at_9.append(stamped(-5), leader_epoch=0, now_ms=NOW_MS)
    header = read_header(log_at_9.segments.active.path.read_bytes())
    assert (header.base_timestamp, header.max_timestamp) == (-5, -1)


@pytest.mark.parametrize("size", range(62))
def test_batch_shorter_than_its_header_is_refused(size: int, log_at_9: Log) -> None:
    """A length is checked as soon as it is read."""
    for data, corrupt_from in ((bytes(size), 12), (bytes(plain()[:size]), 62)):
        with pytest.raises(LogError) as refused:
            log_at_9.append(bytearray(data), leader_epoch=0, now_ms=NOW_MS)
        is_corrupt = size >= corrupt_from
        wanted = ErrorCode.CORRUPT_MESSAGE if is_corrupt else ErrorCode.INVALID_RECORD
        assert refused.value.error is wanted


def test_log_error_text_has_the_reason() -> None:
    """Some errors have a separate sentence for clients, which also has the reason."""
    assert "12 bytes" in str(LogError(ErrorCode.CORRUPT_MESSAGE, "12 bytes"))
    assert "for all" in str(LogError(ErrorCode.INVALID_RECORD, "12 bytes", message="for all"))
