"""Reads messages of magic 0 and 1, which old segments from before Kafka 0.11 have.

    q offset | i length | I crc (CRC-32 of the rest) | b magic | b attributes
    | q timestamp (magic 1) | i key size, key | i value size, value

A compressed message wraps a set of messages in its value, and has the offset of the last of them.
Inner offsets are absolute in magic 0 and count from 0 in magic 1.  The rules are those of
AbstractLegacyRecordBatch.  Inner CRCs are checked, as by a consumer with check.crcs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from kwire.codecs.batch_header import BatchHeader
from kwire.codecs.batch_layout import CODEC_MASK, LEGACY_LENGTHS_MIN
from kwire.codecs.compression import Compression, decompress
from kwire.codecs.inflating import Buffer
from kwire.codecs.record import CorruptBatch, OversizedRecord, Record, TimestampType

_ENTRY = Struct(">qi")
_MESSAGE = Struct(">Ibb")
_TIMESTAMP = Struct(">q")
_SIZE = Struct(">i")
_CRC_END = 4

_OFFSET_MAX = (1 << 63) - 1

_LZ4_DESCRIPTOR_POS = 4
_LZ4_CONTENT_SIZE_FLAG = 0x08
_LZ4_DICTIONARY_FLAG = 0x01
_UINT32 = Struct("<I")


def iter_legacy_records(
    data: Buffer,
    pos: int,
    header: BatchHeader,
    size_bytes_max: int,
    record_bytes_max: int | None = None,
) -> Iterator[Record]:
    """Yield the records of the message of magic 0 or 1 at `pos`: the message, or those that it
    wraps.

    Raises OversizedRecord before the first record, if one of them has more than `record_bytes_max`.
    """
    end = pos + header.size_bytes
    if end > len(data):
        raise CorruptBatch(f"a message of {header.size_bytes} bytes is cut short")
    wrapper = _read_message(
        header.base_offset, bytes(memoryview(data)[pos + _ENTRY.size : end]), header.magic
    )
    if header.compression == Compression.NONE:
        yield wrapper
        return
    inner = _inflate(wrapper.value, header, size_bytes_max)
    messages = list(_iter_messages(inner, record_bytes_max))
    if not messages:
        raise CorruptBatch("a compressed message wraps no message")
    base_offset = _inner_base_offset(header, messages[-1].offset)
    appended = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    for record in messages:
        record.offset += base_offset
        if record.offset > _OFFSET_MAX:
            raise CorruptBatch(f"a wrapped message has offset {record.offset}")
        if appended and record.timestamp != -1:
            record.timestamp = header.max_timestamp
        yield record


def _inner_base_offset(header: BatchHeader, last_inner_offset: int) -> int:
    """Return the number to add to the offsets of wrapped messages."""
    # Some versions of librdkafka gave wrappers the offset 0.  Then inner offsets stay unchanged.
    if header.magic == 0 or header.base_offset == 0:
        return 0
    if header.base_offset < last_inner_offset:
        raise CorruptBatch(
            f"a wrapper at offset {header.base_offset} holds offset {last_inner_offset}"
        )
    return header.base_offset - last_inner_offset


def _inflate(value: bytes | None, header: BatchHeader, size_bytes_max: int) -> bytes:
    """Return the messages within a compressed message; raises CorruptBatch.

    In magic 0, clients wrote lz4 frames with a wrong header checksum, which is corrected first.
    """
    if value is None:
        raise CorruptBatch("a compressed message has no value")
    codec = header.compression
    if codec == Compression.ZSTD:
        raise CorruptBatch(f"zstd needs magic 2, not {header.magic}")
    if codec == Compression.LZ4 and header.magic == 0:
        value = _mend_lz4_header(value)
    return decompress(codec, value, size_bytes_max)


def _iter_messages(inner: bytes, record_bytes_max: int | None) -> Iterator[Record]:
    """Yield the messages of a decompressed set.

    A message that is cut short ends the set, as in Java.
    """
    pos = 0
    while len(inner) - pos >= _ENTRY.size:
        offset, length = _ENTRY.unpack_from(inner, pos)
        if length < LEGACY_LENGTHS_MIN[0]:
            raise CorruptBatch(f"a wrapped message cannot have a length of {length}")
        if record_bytes_max is not None and length > record_bytes_max:
            raise OversizedRecord(record_bytes_max)
        pos += _ENTRY.size
        if pos + length > len(inner):
            return
        message = inner[pos : pos + length]
        pos += length
        crc, magic, attributes = _MESSAGE.unpack_from(message)
        if crc != zlib.crc32(memoryview(message)[_CRC_END:]):
            raise CorruptBatch(f"the CRC of the wrapped message at offset {offset} does not hold")
        if magic not in (0, 1) or attributes & CODEC_MASK:
            raise CorruptBatch(
                f"a wrapped message has magic {magic} and codec {attributes & CODEC_MASK}"
            )
        yield _read_message(offset, message, magic)


def _read_message(offset: int, message: bytes, magic: int) -> Record:
    """Return the record in `message`, which starts at the CRC."""
    if len(message) < LEGACY_LENGTHS_MIN[magic]:
        raise CorruptBatch(f"a message of {len(message)} bytes cannot hold its header")
    pos = _MESSAGE.size
    timestamp = -1
    if magic == 1:
        timestamp = _TIMESTAMP.unpack_from(message, pos)[0]
        pos += _TIMESTAMP.size
    key, pos = _read_bytes(message, pos)
    value, _ = _read_bytes(message, pos)
    return Record(offset, timestamp, key, value)


def _read_bytes(message: bytes, pos: int) -> tuple[bytes | None, int]:
    """Return the key or value at `pos`, None for null, and the position after it.

    Raises CorruptBatch if the message is too short.
    """
    if len(message) - pos < _SIZE.size:
        raise CorruptBatch("a message ends within its key or value")
    size: int = _SIZE.unpack_from(message, pos)[0]
    pos += _SIZE.size
    if size < 0:
        return None, pos
    if size > len(message) - pos:
        raise CorruptBatch(f"a message has no room for a key or value of {size} bytes")
    return message[pos : pos + size], pos + size


def _mend_lz4_header(frame: bytes) -> bytes:
    """Return `frame` with a correct header checksum.

    KAFKA-3160: with magic 0, some clients included the magic number in the checksum and others did
    not, so the checksum cannot be checked.
    """
    if len(frame) <= _LZ4_DESCRIPTOR_POS:
        return frame
    flags = frame[_LZ4_DESCRIPTOR_POS]
    end = _LZ4_DESCRIPTOR_POS + 2
    # The optional fields before the checksum: content size (8 bytes), dictionary id (4 bytes).
    end += 8 if flags & _LZ4_CONTENT_SIZE_FLAG else 0
    end += 4 if flags & _LZ4_DICTIONARY_FLAG else 0
    if len(frame) <= end:
        return frame
    # The lz4 format takes the second byte of the hash.
    checksum = _xxh32_short(frame[_LZ4_DESCRIPTOR_POS:end]) >> 8 & 0xFF
    return frame[:end] + bytes([checksum]) + frame[end + 1 :]


def _xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes; an lz4 frame descriptor is always shorter."""
    assert len(data) < 16
    mask = 0xFFFFFFFF
    # The factors and shifts are constants of the algorithm.
    value = 374761393 + len(data)
    words = len(data) & ~3
    for pos in range(0, words, 4):
        value = (value + _UINT32.unpack_from(data, pos)[0] * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[words:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16
