"""Builds record batches in which any number may be wrong."""

from __future__ import annotations

from struct import pack
from zlib import crc32

from kwire.codecs.batches import HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Compression, seal
from kwire.codecs.compression import compress
from kwire.codecs.varint import varint

Headers = tuple[tuple[bytes, bytes | None], ...]


def sized(data: bytes | None, claimed: int | None = None) -> bytes:
    """Bytes with their size before them, or with another one; -1 means null."""
    size = claimed if claimed is not None else -1 if data is None else len(data)
    return varint(size) + (data or b"")


def record(
    offset_delta: int = 0,
    *,
    size: int | None = None,
    more: int = 0,
    attributes: int = 0,
    timestamp_delta: int | bytes = 0,
    key: bytes | None = b"k",
    key_size: int | None = None,
    value: bytes | None = b"v",
    value_size: int | None = None,
    headers: Headers = (),
    headers_count: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """Return a record of magic 2; parameters such as `size` replace the right value by another.

    `more` is added to the right size. A timestamp delta given as bytes is used as the varint.
    """
    delta = timestamp_delta if isinstance(timestamp_delta, bytes) else varint(timestamp_delta)
    body = bytes([attributes]) + delta + varint(offset_delta)
    body += sized(key, key_size) + sized(value, value_size)
    body += varint(len(headers) if headers_count is None else headers_count)
    for name, content in headers:
        body += sized(name) + sized(content)
    body += tail
    return varint(len(body) + more if size is None else size) + body


SOUND = record(0) + record(1)
"""Two valid records."""


def batch(
    payload: bytes,
    first_ms: int,
    count: int = 2,
    *,
    codec: Compression = Compression.NONE,
    attributes: int | None = None,
    **claims: int,
) -> bytearray:
    """Return a batch of already compressed records with the right length and CRC.

    `claims` replace fields of the header.
    """
    header = BatchHeader(
        base_offset=0,
        length=HEADER_SIZE - LOG_OVERHEAD + len(payload),
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=int(codec) if attributes is None else attributes,
        last_offset_delta=count - 1,
        base_timestamp=first_ms,
        max_timestamp=first_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=count,
    )
    out = bytearray(HEADER_SIZE)
    HEADER.pack_into(out, 0, *header._replace(**claims))
    out += payload
    seal(out)
    return out


def compressed(inner: bytes, first_ms: int, codec: Compression, count: int = 2) -> bytearray:
    """Return a batch of these records, compressed with the codec."""
    return batch(compress(codec, inner), first_ms, count, codec=codec)


def message(
    magic: int,
    value: bytes | None = b"v",
    *,
    first_ms: int = 0,
    offset: int = 0,
    attributes: int = 0,
    length: int | None = None,
    crc: int | None = None,
    key: bytes | None = None,
    value_size: int | None = None,
) -> bytes:
    """Return a message in a format before Kafka 0.11."""
    body = pack(">bb", magic, attributes) + (b"" if magic == 0 else pack(">q", first_ms))
    for data, claimed in ((key, None), (value, value_size)):
        size = claimed if claimed is not None else -1 if data is None else len(data)
        body += pack(">i", size) + (data or b"")
    checked = pack(">I", crc32(body) if crc is None else crc) + body
    return pack(">qi", offset, len(checked) if length is None else length) + checked


def message_set(magic: int, first_ms: int, codec: Compression, count: int = 2) -> bytes:
    """Return a compressed message that contains others, as producers before Kafka 0.11 sent
    them."""
    inner = b"".join(message(magic, offset=i, first_ms=first_ms) for i in range(count))
    return message(magic, compress(codec, inner), first_ms=first_ms, attributes=int(codec))
