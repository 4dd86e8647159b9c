"""Compression codecs: streams of other writers, damaged streams, and bombs."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from contextlib import suppress
from struct import pack

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.batches import CorruptBatch
from kwire.codecs.compression import LEVEL_BOUNDS, Compression, compress, decompress
from kwire.codecs.inflating import CHUNK_SIZE_BYTES

CODECS = [codec for codec in Compression if codec != Compression.NONE]
XERIAL = b"\x82SNAPPY\0" + pack(">ii", 1, 1)
TEXT = b"the same words again and again, " * 40 + random.Random(1).randbytes(300)
ZEROS = bytes(20_000_000)


def zstd_frame(plain: bytes, write_checksum: bool = False) -> bytes:
    """A frame that states the size of its content, as one-shot writers do."""
    return zstandard.ZstdCompressor(write_checksum=write_checksum).compress(plain)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size_bytes", [0, 1, 32 * 1024, 32 * 1024 + 1, 600_000])
def test_compressed_bytes_are_decompressed_unchanged(codec: Compression, size_bytes: int) -> None:
    plain = (TEXT * (size_bytes // len(TEXT) + 1))[:size_bytes]
    for data in (plain, bytearray(plain), memoryview(plain)):
        packed = compress(codec, data)
        assert decompress(codec, packed, size_bytes) == plain
        assert decompress(codec, memoryview(packed), size_bytes) == plain


@pytest.mark.parametrize(
    "codec",
    [
        Compression.GZIP,
        Compression.LZ4,
        pytest.param(Compression.ZSTD, marks=pytest.mark.slow),  # level 22 has tables of 650 MB
    ],
)
def test_compression_levels_outside_kafkas_bounds_are_refused(codec: Compression) -> None:
    low, high = LEVEL_BOUNDS[codec]
    for level in (low, (low + high) // 2, high):
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT
    for level in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"no compression level {level}"):
            compress(codec, TEXT, level)


def test_lz4_level_8_compresses_better_than_the_default() -> None:
    words = random.Random(2).choices([b"alpha", b"beta", b"gamma", b"delta"], k=20_000)
    plain = b" ".join(words)
    assert len(compress(Compression.LZ4, plain, 8)) < len(compress(Compression.LZ4, plain, 9))
    assert compress(Compression.LZ4, plain, 9) == compress(Compression.LZ4, plain)


STREAMS = {
    "gzip of two members": (Compression.GZIP, gzip.compress(TEXT) * 2, TEXT * 2),
    "gzip with a file name": (
        Compression.GZIP,
        b"\x1f\x8b\x08\x08\0\0\0\0\0\xffname\0" + compress(Compression.GZIP, TEXT)[10:],
        TEXT,
    ),
    "gzip before other bytes": (Compression.GZIP, gzip.compress(TEXT) + b"other", TEXT),
    "raw snappy": (Compression.SNAPPY, snappy.compress(TEXT), TEXT),
    "two snappy streams": (Compression.SNAPPY, compress(Compression.SNAPPY, TEXT) * 2, TEXT * 2),
    "snappy without blocks": (Compression.SNAPPY, XERIAL, b""),
    "lz4 with checksums and size": (
        Compression.LZ4,
        lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True, store_size=True),
        TEXT,
    ),
    "lz4 of linked blocks of 4 MB": (
        Compression.LZ4,
        lz4.frame.compress(TEXT * 100, block_size=7, block_linked=True),
        TEXT * 100,
    ),
    "lz4 before other bytes": (Compression.LZ4, compress(Compression.LZ4, TEXT) + b"other", TEXT),
    "zstd with size and checksum": (
        Compression.ZSTD,
        zstd_frame(TEXT, write_checksum=True),
        TEXT,
    ),
    "zstd of three frames": (
        Compression.ZSTD,
        zstd_frame(TEXT) + pack("<II", 0x184D2A53, 5) + b"skip!" + zstd_frame(b""),
        TEXT,
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_other_writers_are_decompressed(name: str) -> None:
    codec, packed, plain = STREAMS[name]
    assert decompress(codec, packed) == plain


CORRUPT = {
    "gzip of a wrong checksum": (
        Compression.GZIP,
        gzip.compress(TEXT)[:-8] + b"\0" * 8,
        "gzip: .*incorrect data check",
    ),
    "gzip with a cut second member": (
        Compression.GZIP,
        gzip.compress(TEXT) + b"\x1f\x8b\x08",
        "gzip: the stream is truncated",
    ),
    "snappy of a wrong size": (Compression.SNAPPY, b"\x08\x00a", "snappy: "),
    "snappy without a size": (Compression.SNAPPY, b"\xff" * 9, "snappy: a block has no size"),
    "snappy with a negative block": (
        Compression.SNAPPY,
        XERIAL + pack(">i", -1),
        "snappy: a block of -1 bytes",
    ),
    "snappy with a cut size": (Compression.SNAPPY, XERIAL + b"\0\0", "is truncated"),
    "lz4 of an unknown magic": (Compression.LZ4, b"LZ4!" + TEXT, "lz4: .*frameType"),
    "zstd of an unknown magic": (Compression.ZSTD, b"zstd" + TEXT, "zstd: the magic number"),
    "zstd before other bytes": (Compression.ZSTD, zstd_frame(TEXT) + b"x" * 9, "magic number"),
    "zstd before a few bytes": (Compression.ZSTD, zstd_frame(TEXT) + b"x", "header of a frame"),
    "zstd of a wrong checksum": (
        Compression.ZSTD,
        zstd_frame(TEXT, write_checksum=True)[:-4] + b"\0" * 4,
        "zstd: .*checksum",
    ),
    "zstd of a window of 2 GB": (
        Compression.ZSTD,
        b"\x28\xb5\x2f\xfd\0\xa8" + b"\x01\0\0",
        "zstd: .*too much memory",
    ),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_decompression_error_names_the_codec_and_reason(name: str) -> None:
    codec, packed, message = CORRUPT[name]
    with pytest.raises(CorruptBatch, match=message):
        decompress(codec, packed)


@pytest.mark.parametrize("codec", CODECS)
def test_stream_cut_short_is_corrupt(codec: Compression) -> None:
    plain = TEXT + random.Random(3).randbytes(300)
    packed = compress(codec, plain)
    for end in range(len(packed)):
        if codec == Compression.SNAPPY and end == len(XERIAL):
            continue  # a stream without blocks is complete
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:end])


@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=200), framed=st.booleans())
def test_arbitrary_bytes_are_decompressed_or_raise_corrupt_batch(
    codec: Compression, data: bytes, framed: bool
) -> None:
    packed = compress(codec, b"")[:6] + data if framed else data
    with suppress(CorruptBatch):
        decompress(codec, packed, 1 << 20)


@pytest.mark.parametrize("codec", CODECS)
def test_changed_bytes_are_decompressed_or_raise_corrupt_batch(codec: Compression) -> None:
    rng = random.Random(codec)
    packed = compress(codec, TEXT)
    for _ in range(2000):
        damaged = bytearray(packed)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with suppress(CorruptBatch):
            decompress(codec, damaged, 1 << 20)


BOMBS = {
    **{codec.name: (codec, compress(codec, ZEROS)) for codec in CODECS},
    "raw snappy": (Compression.SNAPPY, snappy.compress(ZEROS)),
    "snappy that lies": (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 9),
    "zstd of a known size": (Compression.ZSTD, zstd_frame(ZEROS)),
    "gzip of many members": (Compression.GZIP, gzip.compress(ZEROS[:100_000]) * 200),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_takes_no_more_memory_than_the_size_limit(name: str) -> None:
    codec, packed = BOMBS[name]
    size_bytes_max = 1_000_000
    with pytest.raises(CorruptBatch, match="inflates to more than"):
        decompress(codec, packed, size_bytes_max)  # with the library's own start-up
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="inflates to more than"):
            decompress(codec, packed, size_bytes_max)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    growth = size_bytes_max // 8  # how far bytearray grows ahead
    copies = 2 * len(packed)  # the input as bytes, once in us and once in the library
    assert peak < size_bytes_max + 2 * CHUNK_SIZE_BYTES + growth + copies


@pytest.mark.parametrize("codec", CODECS)
def test_size_limit_itself_is_allowed(codec: Compression) -> None:
    packed = compress(codec, ZEROS[:1_000_000])
    assert len(decompress(codec, packed, 1_000_000)) == 1_000_000
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, packed, 999_999)


def test_size_limit_applies_without_a_codec_too() -> None:
    with pytest.raises(CorruptBatch, match="more than 3 bytes"):
        decompress(Compression.NONE, b"four", 3)
