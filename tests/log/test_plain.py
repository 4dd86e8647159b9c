"""Batches that need no look at their records are appended without validation of each record."""

from __future__ import annotations

import pytest

from kwire.codecs.batches import Compression, Record, build, read_header
from kwire.log import LogConfig
from kwire.log.plain import PlainBatches
from tests.log.configs import DEFAULTS, log_config

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def made(*stamps: int, codec: Compression = Compression.NONE, **options: int) -> bytearray:
    kept = [Record(at, stamp, b"k", b"v") for at, stamp in enumerate(stamps)]
    return build(kept, compression=codec, **options)  # type: ignore[arg-type]  # by name


def configured(config: LogConfig) -> PlainBatches:
    plain = PlainBatches()
    plain.configure(config)
    return plain


ONE = made(NOW_MS)
WITHIN_AN_HOUR = log_config(
    message_timestamp_before_max_ms=HOUR_MS, message_timestamp_after_max_ms=HOUR_MS
)
LIMITED = log_config(max_decompressed_message_bytes=2**31 - 10)
OF_A_PRODUCER = made(NOW_MS, producer_id=0, producer_epoch=0, base_sequence=0)


@pytest.mark.parametrize(
    ("batch", "config", "plain"),
    [
        (ONE, DEFAULTS, True),
        (made(*[NOW_MS] * 50), DEFAULTS, True),
        (made(NOW_MS, codec=Compression.ZSTD), DEFAULTS, True),
        (OF_A_PRODUCER, DEFAULTS, True),
        (ONE, LIMITED, True),
        (made(NOW_MS, codec=Compression.GZIP), LIMITED, False),
        (ONE, log_config(max_message_bytes=len(ONE)), True),
        (ONE, log_config(max_message_bytes=len(ONE) - 1), False),
        (ONE, log_config(segment_bytes=len(ONE)), True),
        (ONE, log_config(segment_bytes=len(ONE) - 1), False),
        (made(-1, -1), DEFAULTS, True),
        (made(0, 5), DEFAULTS, True),
        (made(-1, 5), DEFAULTS, False),
        (made(NOW_MS - HOUR_MS, NOW_MS + HOUR_MS), WITHIN_AN_HOUR, True),
        (made(NOW_MS - HOUR_MS - 1, NOW_MS), WITHIN_AN_HOUR, False),
        (made(NOW_MS, NOW_MS + HOUR_MS + 1), WITHIN_AN_HOUR, False),
        (ONE, log_config(message_timestamp_type="LogAppendTime"), False),
        (ONE, log_config(cleanup_policy=frozenset({"compact"})), False),
        (ONE, log_config(compression_type="gzip"), False),
    ],
)
def test_batch_is_plain_if_validation_would_not_change_it(
    batch: bytearray, config: LogConfig, plain: bool
) -> None:
    plainly = configured(config)
    assert plainly.holds(batch, len(batch), read_header(batch), NOW_MS) is plain
    assert not plainly.holds(batch, len(batch) + 1, read_header(batch), NOW_MS), "more bytes follow"


@pytest.mark.parametrize(
    ("codec", "config", "as_it_is"),
    [
        (Compression.NONE, DEFAULTS, True),
        (Compression.GZIP, DEFAULTS, True),
        (Compression.NONE, LIMITED, True),
        (Compression.GZIP, LIMITED, False),
        (Compression.NONE, log_config(compression_type="uncompressed"), True),
        (Compression.GZIP, log_config(compression_type="uncompressed"), False),
        (Compression.NONE, log_config(compression_type="gzip"), False),
        (Compression.NONE, log_config(message_timestamp_type="LogAppendTime"), False),
        (Compression.NONE, log_config(cleanup_policy=frozenset({"compact"})), True),
        (Compression.NONE, log_config(max_message_bytes=len(ONE)), True),
        (Compression.NONE, log_config(max_message_bytes=len(ONE) - 1), False),
    ],
)
def test_batches_of_this_broker_are_stored_without_validation(
    codec: Compression, config: LogConfig, as_it_is: bool
) -> None:
    assert configured(config).holds_own(len(ONE), int(codec)) is as_it_is
