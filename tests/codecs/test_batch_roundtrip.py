"""Written batches are read unchanged by kwire and by kafka-python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kwire.codecs.batches import (
    Compression,
    CorruptBatch,
    Record,
    TimestampType,
    build,
    build_pairs,
    check_crc,
    iter_batches,
    read_header,
    recompress,
    records,
)
from kwire.codecs.compression import LEVEL_BOUNDS

TIMESTAMPS = st.integers(-(1 << 62), (1 << 62) - 1) | st.integers(0, 20_000)
BYTES = st.none() | st.binary(max_size=200) | st.integers(0, 20_000).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=80)), max_size=3)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=20
)


def numbered(found: list[Record], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + index, r.timestamp, r.key, r.value, r.headers)
        for index, r in enumerate(found)
    ]


def levels(codec: Compression) -> st.SearchStrategy[int | None]:
    if codec not in LEVEL_BOUNDS:
        return st.none()
    low, high = LEVEL_BOUNDS[codec]
    # zstd's levels below -50 differ in nothing new, those above 9 take long to set up.
    return st.none() | st.integers(max(low, -50), min(high, 9))


@given(
    pairs=st.lists(
        st.tuples(st.binary(max_size=80) | st.just(bytes(2000)), BYTES), min_size=1, max_size=20
    ),
    timestamp=TIMESTAMPS,
    codec=st.sampled_from((Compression.NONE, Compression.LZ4)),
    producer=st.tuples(st.integers(-1, 1 << 62), st.integers(-1, 32_767), st.integers(-1, 9)),
    transactional=st.booleans(),
)
def test_build_pairs_writes_the_bytes_of_build(
    pairs: list[tuple[bytes, bytes | None]],
    timestamp: int,
    codec: Compression,
    producer: tuple[int, int, int],
    *,
    transactional: bool,
) -> None:
    fields: dict[str, Any] = {
        "compression": codec,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "base_sequence": producer[2],
        "transactional": transactional,
    }
    records = [Record(0, timestamp, key, value) for key, value in pairs]
    assert build_pairs(pairs, timestamp, **fields) == build(records, **fields)


@pytest.mark.slow
@given(
    written=RECORDS,
    base_offset=st.integers(0, 1 << 62),
    codec_level=st.sampled_from(Compression).flatmap(lambda c: st.tuples(st.just(c), levels(c))),
)
def test_built_batch_is_read_as_written(
    written: list[Record], base_offset: int, codec_level: tuple[Compression, int | None]
) -> None:
    codec, level = codec_level
    batch = build(written, base_offset=base_offset, compression=codec, level=level)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert header.compression == codec
    assert header.records_count == header.last_offset_delta + 1 == len(written)
    assert header.max_timestamp == max(record.timestamp for record in written)
    padded = b"\xff" * 7 + batch + b"\xff" * 7
    for data in (memoryview(padded), bytearray(padded), padded):
        assert list(records(data, 7)) == numbered(written, base_offset)


@pytest.mark.slow
@given(written=RECORDS, codec=st.sampled_from(Compression))
def test_kafka_python_reads_a_built_batch_as_written(
    written: list[Record], codec: Compression
) -> None:
    batch = bytes(build(written, base_offset=5, compression=codec))
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    found = [Record(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert found == numbered(written, 5)


@given(
    written=RECORDS,
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from([Compression.NONE, Compression.GZIP, Compression.SNAPPY]),
)
def test_messages_of_kafka_python_are_read(
    written: list[Record], magic: int, codec: Compression
) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    expected = []
    for index, record in enumerate(written):
        timestamp = abs(record.timestamp)
        builder.append(index, timestamp=timestamp, key=record.key, value=record.value)
        stored = timestamp if magic else -1
        expected.append(Record(index, stored, record.key, record.value))
    data = bytes(builder.build())
    found: list[Record] = []
    for pos, header in iter_batches(data):
        check_crc(data, pos, header)
        assert header.compression == codec
        found += records(data, pos)
    assert found == expected


@pytest.mark.slow
@given(written=RECORDS, codecs=st.tuples(*[st.sampled_from(Compression)] * 2))
def test_recompress_changes_no_record(
    written: list[Record], codecs: tuple[Compression, Compression]
) -> None:
    batch = build(written, base_offset=3, compression=codecs[0], producer_id=1, base_sequence=4)
    again = recompress(batch, codecs[1])
    header = read_header(again)
    check_crc(again, 0, header)
    assert header.compression == codecs[1]
    assert (header.producer_id, header.base_sequence) == (1, 4)
    assert list(records(again)) == numbered(written, 3)


@given(value=st.binary(max_size=40))
def test_header_key_that_is_not_utf_8_keeps_its_bytes(value: bytes) -> None:
    key = value.decode("utf-8", "surrogateescape")
    batch = build([Record(0, 0, None, None, [(key, None)])])
    [record] = records(batch)
    assert record.headers == [(key, None)]
    assert value in bytes(batch)
    assert build([record]) == batch


def test_compaction_keeps_offsets_and_the_range_of_a_batch() -> None:
    kept = [Record(12, 50, b"a", b"1"), Record(1300, 40, b"b", b"2")]
    batch = build(
        kept,
        base_offset=10,
        keep_offsets=True,
        last_offset=2000,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        delete_horizon_ms=1_000_000,
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.records_count) == (10, 2000, 2)
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (1_000_000, 50)
    assert header.last_sequence == 1993
    assert list(records(batch)) == kept


def test_batch_without_records_keeps_its_offsets() -> None:
    batch = build([], base_offset=10, last_offset=19, max_timestamp=77)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (10, 19, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 77)
    assert list(records(batch)) == []
    with pytest.raises(ValueError, match="needs a last offset"):
        build([])


@pytest.mark.parametrize("extreme", [(1 << 63) - 1, -(1 << 63)])
def test_deltas_wrap_around_as_in_java(extreme: int) -> None:
    """Java adds int64; a timestamp or an offset outside of it would break whoever encodes it."""
    step = 1 if extreme > 0 else -1
    wrapped = -extreme - 1
    batch = build([Record(0, extreme, None, None)] * 2, max_timestamp=0)
    body = bytearray(batch)
    second = len(body) - 6  # attributes, timestamp delta, offset delta, key, value, headers
    body[second + 1] = 2 if step > 0 else 1
    assert [r.timestamp for r in records(body)] == [extreme, wrapped]
    body[0:8] = extreme.to_bytes(8, "big", signed=True)
    body[second + 2] = 2 if step > 0 else 1
    assert [r.offset for r in records(body)] == [extreme, wrapped]


def test_timestamp_type_and_flags_are_read_as_written() -> None:
    header = read_header(
        build(
            [Record(0, 5, None, b"")],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            compression=Compression.LZ4,
            control=True,
        )
    )
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.compression == Compression.LZ4
    assert header.is_control
    assert not header.is_transactional
    assert not header.has_delete_horizon
    with pytest.raises(CorruptBatch, match="codec 5"):
        _ = header._replace(attributes=5).compression
