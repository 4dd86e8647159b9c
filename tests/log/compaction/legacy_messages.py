"""Writes messages of magic 0 and 1, as brokers before Kafka 0.11 kept them.

See `codecs/legacy.py` for the layout.  Wrapped messages have absolute offsets in magic 0 and count
from the first one in magic 1; the wrapper has the last one's offset and the largest timestamp.
"""

from __future__ import annotations

import zlib
from struct import Struct

from kwire.codecs.batch_layout import CODEC_MASK, LOG_APPEND_TIME_FLAG
from kwire.codecs.batches import BatchHeader, Compression, Record
from kwire.codecs.compression import compress

_ENTRY = Struct(">qi")
_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
_SIZE = Struct(">i")
_NULL = _SIZE.pack(-1)


def wrapped(header: BatchHeader, kept: list[Record]) -> bytes:
    """The messages `kept`, at least one, in a wrapper like the one with this header."""
    relative_to = kept[0].offset if header.magic == 1 else 0
    flags = header.attributes & LOG_APPEND_TIME_FLAG
    inner = b"".join(
        [
            message(record.offset - relative_to, header.magic, flags, record.timestamp,
                     record.key, record.value)
            for record in kept
        ]
    )  # fmt: skip
    codec = Compression(header.attributes & CODEC_MASK)
    stamped = header.attributes & LOG_APPEND_TIME_FLAG
    timestamp = header.max_timestamp if stamped else max(record.timestamp for record in kept)
    value = compress(codec, inner)
    return message(kept[-1].offset, header.magic, header.attributes, timestamp, None, value)


def message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """One message after its offset and size; magic 0 has no timestamp."""
    body = bytearray((magic, attributes))
    if magic == 1:
        body += _TIMESTAMP.pack(timestamp)
    for part in (key, value):
        body += _NULL if part is None else _SIZE.pack(len(part)) + part
    return _ENTRY.pack(offset, len(body) + _CRC.size) + _CRC.pack(zlib.crc32(body)) + body
