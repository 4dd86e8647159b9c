"""Bytes that are no batch raise CorruptBatch and no other error."""

from __future__ import annotations

import random
import zlib
from contextlib import suppress
from struct import pack, pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.batches import (
    HEADER_SIZE,
    Compression,
    CorruptBatch,
    OversizedRecord,
    Record,
    build,
    check_crc,
    iter_batches,
    read_header,
    read_marker,
    recompress,
    records,
)
from kwire.codecs.compression import compress

SAMPLE = [
    Record(0, 1000, b"key", b"value" * 30, [("name", b"text"), ("none", None)]),
    Record(1, 3000, None, b"x" * 90),
    Record(2, 900, b"k" * 100, None),
]
LEGACY_CODECS = [codec for codec in Compression if codec != Compression.ZSTD]


def message(
    magic: int, offset: int, attributes: int, timestamp: int, *fields: bytes | None
) -> bytes:
    """A message of magic 0 or 1 with its key and value in `fields`."""
    body = pack(">bb", magic, attributes) + (pack(">q", timestamp) if magic else b"")
    for field in fields:
        body += pack(">i", -1) if field is None else pack(">i", len(field)) + field
    return pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def legacy(magic: int, codec: Compression) -> bytes:
    plain = b"".join(message(magic, r.offset, 0, r.timestamp, r.key, r.value) for r in SAMPLE)
    if codec == Compression.NONE:
        return plain
    return message(magic, SAMPLE[-1].offset, codec, 3000, None, compress(codec, plain))


SAMPLES = {
    **{f"v2-{codec.name}": bytes(build(SAMPLE, compression=codec)) for codec in Compression},
    **{f"v{m}-{c.name}": legacy(m, c) for m in (0, 1) for c in LEGACY_CODECS},
}


def read_all(data: bytes) -> list[Record]:
    """Everything that can be read in `data`; CorruptBatch is the only way to fail."""
    found: list[Record] = []
    for pos, header in iter_batches(data):
        found += records(data, pos)
        _ = header.compression
    return found


def reads_or_is_corrupt(data: bytes) -> None:
    for read in (
        read_all,
        lambda d: list(records(d)),
        lambda d: list(records(d, record_bytes_max=50)),
        lambda d: recompress(d, Compression.NONE),
    ):
        with suppress(CorruptBatch):
            read(data)


@pytest.mark.parametrize("name", SAMPLES)
def test_batch_cut_short_is_corrupt(name: str) -> None:
    batch = SAMPLES[name]
    [(_, whole), *_] = iter_batches(batch)
    for end in range(whole.size_bytes):
        torn = batch[:end]
        assert list(iter_batches(torn)) == []
        with pytest.raises(CorruptBatch, match="cut short"):
            list(records(torn))
        with pytest.raises(CorruptBatch, match="cut short"):
            check_crc(torn, 0, whole)


@pytest.mark.parametrize(("magic", "size_bytes"), [(0, 86), (1, 78), (2, 93)])
def test_record_above_the_limit_in_a_compressed_batch_is_too_large(
    magic: int, size_bytes: int
) -> None:
    """The largest values that Kafka 4.4.0 reads with a limit of 100 bytes, and a byte more."""

    def batch(value: bytes, codec: Compression = Compression.GZIP) -> bytes:
        kept = [Record(0, 1000, None, b"small"), Record(1, 1000, None, value)]
        if magic == 2:
            return bytes(build(kept, compression=codec))
        inner = b"".join(message(magic, each.offset, 0, 1000, None, each.value) for each in kept)
        return message(magic, 1, codec, 1000, None, compress(codec, inner))

    assert len(list(records(batch(b"x" * size_bytes), record_bytes_max=100))) == 2
    read = records(batch(b"x" * (size_bytes + 1)), record_bytes_max=100)
    if magic == 2:
        assert next(read).value == b"small"
    with pytest.raises(OversizedRecord, match="larger than 100 bytes"):
        next(read)
    if magic == 2:
        plain = batch(b"x" * 500, Compression.NONE)
        assert len(list(records(plain, record_bytes_max=100))) == 2


@pytest.mark.parametrize("count", [1, 3, 10**6])
def test_limited_batch_with_another_number_of_records_is_corrupt(count: int) -> None:
    data = build([Record(at, 1000, None, b"x") for at in range(2)], compression=Compression.GZIP)
    pack_into(">i", data, 57, count)
    with pytest.raises(CorruptBatch):
        list(records(data, record_bytes_max=100))


@pytest.mark.parametrize("name", SAMPLES)
def test_crc_detects_every_changed_bit(name: str) -> None:
    batch = SAMPLES[name]
    [(_, whole), *_] = iter_batches(batch)
    start = 17 if whole.magic == 2 else 12
    for bit in range(8 * start, 8 * whole.size_bytes):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            check_crc(damaged, 0, read_header(damaged))


@pytest.mark.parametrize("name", SAMPLES)
def test_changed_byte_is_read_or_raises_corrupt_batch(name: str) -> None:
    """The CRC is not checked, so the readers of header, records and codecs see the changed byte."""
    rng = random.Random(name)
    batch = SAMPLES[name]
    for pos in range(len(batch)):
        damaged = bytearray(batch)
        damaged[pos] = rng.choice((0, 1, 127, 128, 255, damaged[pos] ^ 1 << rng.randrange(8)))
        reads_or_is_corrupt(bytes(damaged))


@pytest.mark.parametrize("name", SAMPLES)
def test_many_changed_bytes_are_read_or_raise_corrupt_batch(name: str) -> None:
    rng = random.Random(name)
    batch = SAMPLES[name]
    for _ in range(300):
        damaged = bytearray(batch)
        for _ in range(rng.randrange(1, 6)):
            start = rng.randrange(17, len(damaged))
            kind = rng.randrange(3)
            if kind == 0:
                damaged[start : start + 4] = rng.randbytes(4)
            elif kind == 1:
                del damaged[start : start + rng.randrange(1, 9)]
            else:
                damaged[start:start] = rng.randbytes(rng.randrange(1, 9))
        if len(damaged) > HEADER_SIZE:
            pack_into(">i", damaged, 8, len(damaged) - 12)
        reads_or_is_corrupt(bytes(damaged))


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_read_or_raise_corrupt_batch(data: bytes) -> None:
    reads_or_is_corrupt(data)


@given(inner=st.binary(max_size=80), count=st.integers(-3, 5), codec=st.sampled_from(Compression))
def test_arbitrary_record_bytes_are_read_or_raise_corrupt_batch(
    inner: bytes, count: int, codec: Compression
) -> None:
    reads_or_is_corrupt(with_inner(inner, count, codec))


def with_inner(inner: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """A batch that is sound but for `inner`, the bytes of its records as they are stored."""
    batch = build([Record(0, 0, None, None)], compression=codec)[:HEADER_SIZE] + inner
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">i", batch, 57, count)
    return bytes(batch)


ONE = bytes.fromhex("0c 00 00 00 01 01 00")  # size 6: no key, no value, no headers

INNER = {
    "too few": (ONE, 2, "ends within"),
    "too many": (ONE + ONE, 1, "follow the last"),
    "trailing byte": (ONE + b"\0", 1, "follow the last"),
    "negative count": (ONE, -1, "cannot hold -1"),
    "no records but bytes": (ONE, 0, "follow the last"),
    "size too large": (bytes.fromhex("0e 00 00 00 01 01 00"), 1, "should end at byte 8"),
    "size too small": (bytes.fromhex("0a 00 00 00 01 01 00"), 1, "should end at byte 6"),
    "negative size": (bytes.fromhex("01 00 00 00 01 01 00"), 1, "should end at byte 0"),
    "size of an overlong varint": (b"\xff" * 5 + b"\0" + ONE, 1, "longer than 5"),
    "timestamp of an overlong varint": (b"\x20\0" + b"\xff" * 10 + b"\0" * 9, 1, "longer than 10"),
    "key past the end": (bytes.fromhex("0c 00 00 00 7e 01 00"), 1, "ends within"),
    "value past the end": (bytes.fromhex("0c 00 00 00 01 7e 00"), 1, "ends within"),
    "negative count of headers": (bytes.fromhex("0c 00 00 00 01 01 01"), 1, "hold -1 headers"),
    "more headers than bytes": (bytes.fromhex("0c 00 00 00 01 01 7e"), 1, "hold 63 headers"),
    "negative size of a header's key": (
        bytes.fromhex("10 00 00 00 01 01 02 01 01"),
        1,
        "size of -1",
    ),
    "header's value past the end": (
        bytes.fromhex("12 00 00 00 01 01 02 02 61 7e"),
        1,
        "should end at byte 10",
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_error_names_the_wrong_length_or_count_of_a_record(name: str) -> None:
    inner, count, message = INNER[name]
    with pytest.raises(CorruptBatch, match=message):
        list(records(with_inner(inner, count)))


def test_negative_sizes_are_null() -> None:
    """As in Java, where any negative size is; -1 is what writers use."""
    inner = bytes.fromhex("0c 00 00 00 03 05 00")
    assert list(records(with_inner(inner, 1))) == [Record(0, 0, None, None)]


@pytest.mark.parametrize("length", [-1, 0, 13, 48])
def test_batch_length_below_the_header_size_is_corrupt(length: int) -> None:
    batch = bytearray(SAMPLES["v2-NONE"])
    pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch, match=f"length {length} cannot"):
        list(iter_batches(batch))


def test_unknown_magic_is_corrupt() -> None:
    batch = bytearray(SAMPLES["v2-NONE"])
    batch[16] = 3
    with pytest.raises(CorruptBatch, match="unknown magic 3"):
        read_header(batch)


def test_unknown_codec_is_corrupt() -> None:
    for codec in (5, 6, 7):
        batch = bytearray(SAMPLES["v2-NONE"])
        batch[22] = codec
        with pytest.raises(CorruptBatch, match=f"codec {codec}"):
            records(batch)


def test_nested_wrapper_message_is_corrupt() -> None:
    inner = legacy(1, Compression.GZIP)
    with pytest.raises(CorruptBatch, match="codec 1"):
        list(records(wrapped(inner)))


def test_wrapper_without_messages_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="wraps no message"):
        list(records(wrapped(b"")))


def test_wrapper_offset_below_its_inner_offsets_is_corrupt() -> None:
    inner = bytearray(legacy(1, Compression.NONE))
    with pytest.raises(CorruptBatch, match="at offset 1 holds offset 2"):
        list(records(wrapped(bytes(inner), offset=1)))


def test_wrapper_at_offset_0_keeps_the_inner_offsets() -> None:
    """Some versions of librdkafka sent that, and Kafka allows it."""
    inner = legacy(1, Compression.NONE)
    assert [r.offset for r in records(wrapped(inner, offset=0))] == [0, 1, 2]
    assert [r.offset for r in records(wrapped(inner, offset=9))] == [7, 8, 9]


def test_crc_of_an_inner_message_is_checked() -> None:
    inner = bytearray(legacy(1, Compression.NONE))
    inner[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC of the wrapped message at offset 2"):
        list(records(wrapped(bytes(inner), offset=2)))


def wrapped(inner: bytes, offset: int = 2) -> bytes:
    return message(1, offset, Compression.GZIP, 0, None, compress(Compression.GZIP, inner))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 6),
        (b"\0\0\0", b"\0" * 6),
        (b"\xff\xff\0\1", b"\0" * 6),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0" * 5),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_marker_cut_short_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match=r"cut short|has version -1"):
        read_marker(Record(0, 0, key, value))


def test_control_record_of_another_type_is_no_marker() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\2", b"")) is None
