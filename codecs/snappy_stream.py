"""Snappy as Kafka's clients write it: raw blocks inside the framing of snappy-java ("xerial").

    magic 82 'SNAPPY' 00 | version int32 | compatible version int32 | (size int32, raw block)*

snappy-java accepts a raw block without framing as well (Sarama and others sent it), and streams
put one after the other, each with its own header.
"""

from __future__ import annotations

from struct import Struct

import snappy

from kwire.codecs.inflating import Buffer, too_large
from kwire.codecs.record import CorruptBatch

_MAGIC = b"\x82SNAPPY\0"
_HEADER = _MAGIC + b"\0\0\0\1\0\0\0\1"
_SIZE = Struct(">i")
_BLOCK_SIZE_BYTES = 32 * 1024  # SnappyOutputStream's default, which Kafka keeps
_PREAMBLE_SIZE_MAX = 5


def compress(data: Buffer) -> bytes:
    """Return `data` in blocks of 32 kB under the header of snappy-java."""
    source = memoryview(data)
    out = bytearray(_HEADER)
    for start in range(0, len(source), _BLOCK_SIZE_BYTES):
        block = snappy.compress(bytes(source[start : start + _BLOCK_SIZE_BYTES]))
        out += _SIZE.pack(len(block))
        out += block
    return bytes(out)


def decompress(data: Buffer, size_bytes_max: int) -> bytes:
    """Return `data`, framed or raw, inflated; CorruptBatch as in `compression.decompress`."""
    source = bytes(data)
    if not source.startswith(_MAGIC):
        return _inflate_block(source, size_bytes_max)
    out = bytearray()
    pos = 0
    while pos < len(source):
        if source.startswith(_MAGIC, pos):
            pos += len(_HEADER)
            if pos > len(source):
                raise CorruptBatch("snappy: the header is truncated")
            continue
        if len(source) - pos < _SIZE.size:
            raise CorruptBatch("snappy: the size of a block is truncated")
        size_bytes: int = _SIZE.unpack_from(source, pos)[0]
        pos += _SIZE.size
        if not 0 <= size_bytes <= len(source) - pos:
            raise CorruptBatch(f"snappy: a block of {size_bytes} bytes does not fit")
        out += _inflate_block(source[pos : pos + size_bytes], size_bytes_max - len(out))
        pos += size_bytes
    return bytes(out)


def _inflate_block(block: bytes, size_bytes_max: int) -> bytes:
    """Return the content of one raw block; raises CorruptBatch if damaged or too large.

    The size in its header is checked before any memory is taken.
    """
    if _inflated_size_bytes(block) > size_bytes_max:
        raise too_large(size_bytes_max)
    try:
        inflated: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"snappy: {error.__cause__}") from error
    return inflated


def _inflated_size_bytes(block: bytes) -> int:
    """Return the size that a raw block announces in its preamble, an unsigned varint."""
    size_bytes = 0
    for index, byte in enumerate(block[:_PREAMBLE_SIZE_MAX]):
        size_bytes |= (byte & 127) << 7 * index
        if byte < 128:
            return size_bytes
    raise CorruptBatch("snappy: a block has no size")
