"""Bounded inflating of zstd frames (RFC 8878).

The library's streaming reader reports a frame that is cut short as the end of the data, so the
blocks are walked first: a few bytes per 128 kB tell whether every frame is complete.
"""

from __future__ import annotations

from struct import Struct

import zstandard

from kwire.codecs.inflating import CHUNK_SIZE_BYTES, Buffer, too_large
from kwire.codecs.record import CorruptBatch

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC_MIN = 0x184D2A50
_SKIPPABLE_MAGIC_MAX = 0x184D2A5F
_UINT32 = Struct("<I")
_RLE_BLOCK = 1
_CHECKSUM_SIZE_BYTES = 4
_WINDOW_SIZE_BYTES_MAX = 1 << 27  # zstd's own default for readers, and zstd-jni's: up to level 22


def decompress(data: Buffer, size_bytes_max: int) -> bytes:
    """Return all frames of `data` inflated; CorruptBatch as in `compression.decompress`."""
    source = bytes(data)
    _check_frames(source)
    inflater = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_BYTES_MAX)
    out = bytearray()
    with inflater.stream_reader(source, read_across_frames=True) as reader:
        try:
            while chunk := reader.read(CHUNK_SIZE_BYTES):
                out += chunk
                if len(out) > size_bytes_max:
                    raise too_large(size_bytes_max)
        except zstandard.ZstdError as error:
            raise CorruptBatch(f"zstd: {error}") from error
    return bytes(out)


def _check_frames(source: bytes) -> None:
    """Raise CorruptBatch unless the bytes are one or more whole frames.

    The library itself takes a truncated last frame without an error.
    """
    if not source:
        raise CorruptBatch("zstd: there is no frame")
    pos = 0
    try:
        while pos < len(source):
            pos = _frame_end(source, pos)
    except IndexError:
        pos = len(source) + 1
    if pos > len(source):
        raise CorruptBatch("zstd: a frame is truncated")


def _frame_end(source: bytes, pos: int) -> int:
    """Return the position after the frame at `pos`.

    If the frame is truncated, it is past the end of `source`, or IndexError is raised.
    """
    if not source.startswith(_MAGIC, pos):
        return _skippable_frame_end(source, pos)
    # RFC 8878, section 3.1.1: the sizes of the optional header fields depend on its bits.
    descriptor = source[pos + 4]
    single_segment = descriptor >> 5 & 1
    dictionary_id_size = (0, 1, 2, 4)[descriptor & 3]
    content_size_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    pos += 5 + (1 - single_segment) + dictionary_id_size + content_size_size
    while True:
        # A block header has 3 bytes: bit 0 is "last", bits 1 and 2 the type, the rest the size.
        block = source[pos] | source[pos + 1] << 8 | source[pos + 2] << 16
        is_rle = (block >> 1 & 3) == _RLE_BLOCK
        pos += 3 + (1 if is_rle else block >> 3)
        if block & 1:
            return pos + (_CHECKSUM_SIZE_BYTES if descriptor & 4 else 0)


def _skippable_frame_end(source: bytes, pos: int) -> int:
    """Return the end of the skippable frame at `pos`; raises CorruptBatch if it is none."""
    if len(source) - pos < 2 * _UINT32.size:
        raise CorruptBatch("zstd: the header of a frame is truncated")
    if not _SKIPPABLE_MAGIC_MIN <= _UINT32.unpack_from(source, pos)[0] <= _SKIPPABLE_MAGIC_MAX:
        raise CorruptBatch("zstd: the magic number of a frame is wrong")
    size_bytes: int = _UINT32.unpack_from(source, pos + _UINT32.size)[0]
    return pos + 2 * _UINT32.size + size_bytes
