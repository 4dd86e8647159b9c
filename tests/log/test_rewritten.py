"""Batches whose records are read or rewritten, in all combinations of configs."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import (
    Compression,
    ControlType,
    Record,
    build,
    control_batch,
    read_header,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError, Origin
from tests.log.configs import log_config
from tests.log.test_unread import unreadable

if TYPE_CHECKING:
    from tests.log.conftest import OpenLog

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 5
BOUND_MS = 1000
NAMES = {
    Compression.NONE: "uncompressed",
    Compression.GZIP: "gzip",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}
WORDS = [b"record", b"batch", b"offset", b"epoch", b"marker", b"segment"]


def compressible() -> list[Record]:
    """Data whose compressed size depends on the level."""
    chance = random.Random(1)
    return [
        Record(number, NOW_MS - number % 7, b"k", b" ".join(chance.choices(WORDS, k=60)))
        for number in range(60)
    ]


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("stamps", [False, True])
@pytest.mark.parametrize(("given", "stored"), [*itertools.product(NAMES, NAMES)])
def test_batch_is_rewritten_in_the_topics_codec(
    open_log: OpenLog, given: Compression, stored: Compression, stamps: bool, transactional: bool
) -> None:
    """Only the codec changes, and the timestamps if the topic has LogAppendTime."""
    log = open_log(
        log_config(
            compression_type=NAMES[stored],
            message_timestamp_type="LogAppendTime" if stamps else "CreateTime",
        )
    )
    sent = compressible()
    producer = {"producer_id": 3, "producer_epoch": 1, "base_sequence": 0}
    batch = build(sent, compression=given, transactional=transactional, **producer)  # type: ignore[arg-type]  # by name
    before = read_header(batch)
    log.append(batch, leader_epoch=0, now_ms=LATER_MS)
    data = log.segments.active.path.read_bytes()
    header = read_header(data)
    assert header.compression is stored
    assert header.is_transactional == transactional
    kept = ("producer_id", "producer_epoch", "base_sequence", "records_count", "base_timestamp")
    assert [getattr(header, name) for name in kept] == [getattr(before, name) for name in kept]
    assert header.max_timestamp == (LATER_MS if stamps else NOW_MS)
    found = [
        (record.offset, record.timestamp, record.key, record.value) for record in records(data)
    ]
    assert found == [
        (number, LATER_MS if stamps else record.timestamp, record.key, record.value)
        for number, record in enumerate(sent)
    ]
    assert log.segments.active.max_timestamp == header.max_timestamp
    assert dict(log.producers.ongoing) == ({0: 3} if transactional else {})


@pytest.mark.parametrize(
    ("codec", "name", "levels"),
    [
        (Compression.GZIP, "gzip", (1, 9)),
        (Compression.LZ4, "lz4", (1, 17)),
        (Compression.ZSTD, "zstd", (-50, 9)),
    ],
)
def test_batch_is_compressed_at_the_topics_level(
    open_log: OpenLog, codec: Compression, name: str, levels: tuple[int, int]
) -> None:
    config = {"compression_type": name}
    sizes = []
    for level in levels:
        log = open_log(log_config(**config, **{f"compression_{name}_level": level}))
        wanted = build(compressible(), compression=codec, level=level)
        sent = build(compressible())
        sizes.append(log.append(sent, leader_epoch=0, now_ms=NOW_MS).size_bytes)
        assert sizes[-1] == len(wanted)
    assert sizes[0] > sizes[1]


def test_batch_in_the_topics_codec_is_not_decompressed(open_log: OpenLog) -> None:
    batch = unreadable(2, NOW_MS, NOW_MS)
    log = open_log(log_config(compression_type="gzip"))
    log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 2
    log.update_config(log_config(compression_type="lz4"))
    with pytest.raises(LogError) as refused:
        log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_marker_is_not_compressed(open_log: OpenLog, stamps: str) -> None:
    log = open_log(log_config(compression_type="zstd", message_timestamp_type=stamps))
    marker = control_batch(ControlType.ABORT, 0, producer_id=3, producer_epoch=0, timestamp=NOW_MS)
    log.append(marker, leader_epoch=0, now_ms=LATER_MS, origin=Origin.COORDINATOR)
    header = read_header(log.segments.active.path.read_bytes())
    assert (header.compression, header.is_control) == (Compression.NONE, True)
    assert header.max_timestamp == (NOW_MS if stamps == "CreateTime" else LATER_MS)


@pytest.mark.parametrize("more", [-1, 0])
def test_rewritten_batch_above_max_message_bytes_is_refused(open_log: OpenLog, more: int) -> None:
    sent = build(compressible(), compression=Compression.ZSTD)
    grown = len(build(compressible()))
    log = open_log(log_config(compression_type="uncompressed", max_message_bytes=grown + more))
    if more < 0:
        with pytest.raises(LogError, match="MESSAGE_TOO_LARGE"):
            log.append(sent, leader_epoch=0, now_ms=NOW_MS)
    else:
        assert log.append(sent, leader_epoch=0, now_ms=NOW_MS).size_bytes == grown


AWAY_MS = (-BOUND_MS - 1, -BOUND_MS, -1, 0, BOUND_MS, BOUND_MS + 1)


@pytest.mark.parametrize(
    ("codec", "compacted"), [("producer", True), ("gzip", True), ("gzip", False)]
)
def test_refusal_names_each_invalid_record(open_log: OpenLog, codec: str, compacted: bool) -> None:
    """Records that are too old or too new, and in a compacted topic records without a key.

    A compacted topic and a rewrite require a look at all records.
    """
    log = open_log(
        log_config(
            compression_type=codec,
            cleanup_policy=frozenset({"compact" if compacted else "delete"}),
            message_timestamp_before_max_ms=BOUND_MS,
            message_timestamp_after_max_ms=BOUND_MS,
        )
    )
    for away in itertools.product(AWAY_MS, AWAY_MS, AWAY_MS):
        keys = [None if away[0] == 0 else b"k", b"", None if away[1] > 0 else b"k"]
        sent = [Record(0, NOW_MS + late, key, b"") for late, key in zip(away, keys, strict=True)]
        untimely = {number for number, late in enumerate(away) if abs(late) > BOUND_MS}
        keyless = {number for number, key in enumerate(keys) if key is None and compacted}
        bad = sorted(untimely | keyless)
        batch = build(sent)
        if not bad:
            log.append(batch, leader_epoch=0, now_ms=NOW_MS)
            continue
        with pytest.raises(LogError) as refused:
            log.append(batch, leader_epoch=0, now_ms=NOW_MS)
        assert [number for number, _ in refused.value.record_errors] == bad
        is_time = bool(untimely - keyless)
        wanted = ErrorCode.INVALID_TIMESTAMP if is_time else ErrorCode.INVALID_RECORD
        assert refused.value.error is wanted
