"""Batches that are validated by the header alone, without reading their records."""

from __future__ import annotations

import itertools
import struct

import crc32c
import pytest

from kwire.codecs.batches import Compression, Record, build, read_header
from kwire.codecs.errors import ErrorCode
from kwire.log import LogConfig, LogError, Origin
from kwire.log.plain import PlainBatches
from kwire.log.validator import validate
from tests.log.configs import DEFAULTS, log_config

NOW_MS = 1_700_000_000_000
BOUND_MS = 1000
STAMPS = (-5, -1, 0, *(NOW_MS + away for away in (-1001, -1000, -1, 0, 1000, 1001)))
BOUNDED = log_config(
    message_timestamp_before_max_ms=BOUND_MS, message_timestamp_after_max_ms=BOUND_MS
)
LOG_APPEND_TIME = log_config(message_timestamp_type="LogAppendTime")
COMPACTED = log_config(cleanup_policy=frozenset({"compact"}))


def unreadable(count: int, first: int, largest: int, flag: int = 0) -> bytearray:
    """A batch with a valid CRC that claims gzip but is not compressed."""
    made = [Record(number, 0, b"k", b"v") for number in range(count)]
    batch = build(made, compression=Compression.GZIP)[:61] + b"these are no records"
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, Compression.GZIP | flag)
    struct.pack_into(">qq", batch, 27, first, largest)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return batch


def is_taken(batch: bytearray, config: LogConfig) -> bool:
    try:
        validate(batch, config, Origin.CLIENT, NOW_MS, name="t-0", log_start_offset=0)
    except LogError as error:
        return error.error is not ErrorCode.INVALID_RECORD
    return True


def settled(count: int, first: int, largest: int) -> bool:
    """Whether the header alone shows that the timestamps are in bounds and the largest is right."""
    if first == largest == -1:
        return NOW_MS - BOUND_MS <= -1
    within = NOW_MS - BOUND_MS <= first <= largest <= NOW_MS + BOUND_MS
    return within and first >= 0 and (count > 1 or first == largest)


@pytest.mark.parametrize("count", [1, 2])
def test_header_timestamps_decide_whether_records_are_read(count: int) -> None:
    plain = PlainBatches()
    plain.configure(BOUNDED)
    for first, largest in itertools.product(STAMPS, STAMPS):
        batch = unreadable(count, first, largest)
        wanted = settled(count, first, largest)
        assert plain.holds(batch, len(batch), read_header(batch), NOW_MS) == wanted
        assert is_taken(batch, BOUNDED) == wanted, (first, largest)


@pytest.mark.parametrize(
    ("first", "largest"), [(-1, -1), (0, 0), (0, 5), (5, 0), (-5, -5), (-1, 0)]
)
def test_records_are_not_read_for_known_timestamps_without_bounds(first: int, largest: int) -> None:
    assert is_taken(unreadable(2, first, largest), DEFAULTS) == (
        (first, largest) in [(-1, -1), (0, 0), (0, 5)]
    )


def test_topic_configs_decide_whether_records_are_read() -> None:
    """Compaction requires the keys. With LogAppendTime, the records' timestamps do not matter."""
    for first, largest in itertools.product(STAMPS, STAMPS):
        assert is_taken(unreadable(2, first, largest), LOG_APPEND_TIME)
    assert is_taken(unreadable(2, NOW_MS, NOW_MS), DEFAULTS)
    assert not is_taken(unreadable(2, NOW_MS, NOW_MS), COMPACTED)
    for config in (DEFAULTS, LOG_APPEND_TIME):
        assert not is_taken(unreadable(2, NOW_MS, NOW_MS, flag=8), config), "stamped by the client"
