"""The five codecs of record batches; output is byte for byte that of Apache Kafka's Java client.

Levels and defaults are those of compression.gzip.level, compression.lz4.level and
compression.zstd.level (KIP-390).  Decompression works in chunks and stops at `size_bytes_max`.  The
libraries are imported at their first use: a broker that only stores and sends batches needs none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any

from kwire.codecs.inflating import (
    CHUNK_SIZE_BYTES,
    INFLATED_SIZE_BYTES_MAX,
    Buffer,
    too_large,
)
from kwire.codecs.record import CorruptBatch

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_HEADER = _GZIP_MAGIC + b"\x08\0\0\0\0\0\0\xff"  # deflate, no time, unknown system
_GZIP_TRAILER = Struct("<II")  # CRC-32, size

_FEED_SIZE_BYTES = 64 * 1024
"""The input that a decompressor gets at once: zlib copies input that it has not consumed."""


class Compression(IntEnum):
    """The codec of a batch: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}
"""Defaults of compression.<codec>.level. Snappy has no levels."""

LEVEL_BOUNDS = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-131072, 22)}
"""Valid values of compression.<codec>.level; gzip takes its default, -1, as well."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed as the Java client does it; `level` None is the codec's default.

    Raises ValueError for a level outside `LEVEL_BOUNDS`.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.SNAPPY:
        from kwire.codecs import snappy_stream

        return snappy_stream.compress(data)
    chosen = DEFAULT_LEVELS[codec] if level is None else level
    low, high = LEVEL_BOUNDS[codec]
    if not low <= chosen <= high and chosen != DEFAULT_LEVELS[codec]:
        raise ValueError(f"{codec.name.lower()} has no compression level {chosen}")
    return _COMPRESSORS[codec](data, chosen)


def decompress(
    codec: Compression, data: Buffer, size_bytes_max: int = INFLATED_SIZE_BYTES_MAX
) -> bytes:
    """Return `data` decompressed.

    Bytes behind a complete stream are treated as by Java's input streams: gzip and zstd read a
    further member or frame, gzip and lz4 ignore anything else.

    Raises CorruptBatch if `data` is malformed, truncated or larger than `size_bytes_max`.
    """
    if codec == Compression.NONE:
        if len(data) > size_bytes_max:
            raise too_large(size_bytes_max)
        return bytes(data)
    return _DECOMPRESSORS[codec](data, size_bytes_max)


def _gzip(data: Buffer, level: int) -> bytes:
    """A member like GZIPOutputStream's: zlib would name another operating system in its header."""
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = deflater.compress(data) + deflater.flush()
    # The gzip trailer has the size modulo 2^32.
    size_bytes = memoryview(data).nbytes & 0xFFFFFFFF
    return _GZIP_HEADER + deflated + _GZIP_TRAILER.pack(zlib.crc32(data), size_bytes)


def _gunzip(data: Buffer, size_bytes_max: int) -> bytes:
    """Return the content of all gzip members, as java.util.zip.GZIPInputStream reads them.

    Bytes behind them that begin no member are ignored. Raises CorruptBatch.
    """
    source = memoryview(data)
    out = bytearray()
    pos = 0
    while True:
        # 16 tells zlib to expect a gzip header.
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            pos = _gunzip_member(inflater, source, pos, out, size_bytes_max)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from error
        if bytes(source[pos : pos + 2]) != _GZIP_MAGIC:
            return bytes(out)


def _gunzip_member(
    inflater: Any,  # noqa: ANN401 - zlib does not name the type of its decompressobj
    source: memoryview,
    pos: int,
    out: bytearray,
    size_bytes_max: int,
) -> int:
    """Inflate one gzip member from `pos` on into `out`; return the position after it.

    A stream may have several members, which is why the unused bytes are given back. Raises
    CorruptBatch if it is truncated or `out` grows beyond `size_bytes_max`.
    """
    pending: Buffer = b""
    while not inflater.eof:
        if not pending:
            pending = source[pos : pos + _FEED_SIZE_BYTES]
            pos += len(pending)
        chunk = inflater.decompress(pending, CHUNK_SIZE_BYTES)
        if not chunk and not pending:
            raise CorruptBatch("gzip: the stream is truncated")
        out += chunk
        if len(out) > size_bytes_max:
            raise too_large(size_bytes_max)
        pending = inflater.unconsumed_tail
    return pos - len(inflater.unused_data)


def _lz4(data: Buffer, level: int) -> bytes:
    """Return a frame like Lz4BlockOutputStream's: independent blocks of 64 kB, no size, no
    checksum.
    """
    import lz4.frame

    # Level 9 is Kafka's default and means the fast compressor there, not level 9 of lz4hc.
    fast = level == DEFAULT_LEVELS[Compression.LZ4]
    frame: bytes = lz4.frame.compress(
        bytes(data),
        # lz4.frame takes levels below 3 for the fast compressor.
        compression_level=0 if fast else max(level, 3),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )
    return frame


def _unlz4(data: Buffer, size_bytes_max: int) -> bytes:
    """Return the content of one lz4 frame; bytes after the frame are ignored.

    Raises CorruptBatch if the frame is damaged, or inflates to more than `size_bytes_max`: it is
    inflated in chunks, so a small frame cannot fill the memory.
    """
    import lz4.frame

    inflater = lz4.frame.LZ4FrameDecompressor()
    source = memoryview(data)
    out = bytearray()
    pos = 0
    while not inflater.eof:
        pending: bytes = b""
        if inflater.needs_input:
            pending = bytes(source[pos : pos + _FEED_SIZE_BYTES])
            pos += len(pending)
            if not pending:
                raise CorruptBatch("lz4: the frame is truncated")
        try:
            chunk = inflater.decompress(pending, max_length=CHUNK_SIZE_BYTES)
        except (RuntimeError, ValueError, EOFError) as error:
            raise CorruptBatch(f"lz4: {error}") from error
        if not chunk and not pending and not (inflater.eof or inflater.needs_input):
            raise CorruptBatch("lz4: the frame makes no progress")
        out += chunk
        if len(out) > size_bytes_max:
            raise too_large(size_bytes_max)
    return bytes(out)


def _unsnappy(data: Buffer, size_bytes_max: int) -> bytes:
    from kwire.codecs import snappy_stream

    return snappy_stream.decompress(data, size_bytes_max)


def _zstd(data: Buffer, level: int) -> bytes:
    """Return a frame like ZstdOutputStream's: no content size, and an empty block at the end."""
    import zstandard

    deflater = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    blocks = deflater.compress(data) + deflater.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return blocks + deflater.flush()


def _unzstd(data: Buffer, size_bytes_max: int) -> bytes:
    from kwire.codecs import zstd_stream

    return zstd_stream.decompress(data, size_bytes_max)


_COMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _gzip,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
