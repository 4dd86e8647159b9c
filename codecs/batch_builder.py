"""Writes record batches of magic 2, byte for byte as Apache Kafka's MemoryRecordsBuilder does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from kwire.codecs import crc32c
from kwire.codecs.batch_header import read_header
from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_END,
    CRC_POS,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batch_reader import inner_bytes
from kwire.codecs.compression import Compression, compress
from kwire.codecs.inflating import INFLATED_SIZE_BYTES_MAX, Buffer
from kwire.codecs.record import CorruptBatch, Record, TimestampType
from kwire.codecs.varint import VARINTS, varint

_NO_TIMESTAMP = -1
_UNCOVERED = Struct(">qiibI")
_COVERED = Struct(">hiqqqhii")
"""The two parts of the header: the CRC covers the second one and the records."""

_NO_CRC = 0  # until the batch is sealed
_NO_EPOCH = -1  # until a leader appends the batch


def build(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    keep_offsets: bool = False,
    last_offset: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return one batch of `records`.  Without `last_offset` there must be at least one record.

    The records get consecutive offsets from `base_offset` on.  With `keep_offsets` they keep their
    own offsets, which must ascend from `base_offset` on and may have gaps.  `last_offset` keeps the
    offset range of a batch whose last records were removed by compaction.  `max_timestamp` is by
    default the largest one of the records; with LOG_APPEND_TIME it is the time that readers see.
    `delete_horizon_ms` becomes the base timestamp and sets its flag (KIP-534).
    """
    batch = list(records)
    if last_offset is None:
        if not batch:
            raise ValueError("a batch without records needs a last offset")
        last_offset = batch[-1].offset if keep_offsets else base_offset + len(batch) - 1
    base_timestamp = batch[0].timestamp if batch else _NO_TIMESTAMP
    # The low three bits are the codec.
    attributes = (timestamp_type << 3) | compression
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    if control:
        attributes |= CONTROL_FLAG
    if max_timestamp is None:
        max_timestamp = max([record.timestamp for record in batch], default=_NO_TIMESTAMP)
    deltas = [record.offset - base_offset for record in batch] if keep_offsets else None
    inner = _encode(batch, deltas or range(len(batch)), base_timestamp)
    return _sealed(
        inner if compression == Compression.NONE else compress(compression, inner, level),
        base_offset,
        partition_leader_epoch,
        MAGIC,
        _NO_CRC,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(batch),
    )


def build_pairs(
    pairs: Sequence[tuple[bytes, bytes | None]],
    timestamp: int,
    *,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Return one batch of records given as keys and values, which share `timestamp`.

    The records have no headers, and there must be at least one.  The bytes are those of `build`,
    which takes twice as long: coordinators write a small batch for each request.
    """
    inner = bytearray()
    short = VARINTS
    shorts = len(short)
    for delta, (key, value) in enumerate(pairs):
        size = len(key)
        body = (
            b"\0\0"  # attributes, timestamp delta
            + (short[delta] if delta < shorts else varint(delta))
            + (short[size] if size < shorts else varint(size))
            + key
        )
        if value is None:
            body += b"\1\0"  # null; no headers
        else:
            size = len(value)
            body += (short[size] if size < shorts else varint(size)) + value + b"\0"
        size = len(body)
        inner += short[size] if size < shorts else varint(size)
        inner += body
    return _sealed(
        inner if compression == Compression.NONE else compress(compression, inner),
        0,
        _NO_EPOCH,
        MAGIC,
        _NO_CRC,
        compression | TRANSACTIONAL_FLAG if transactional else compression,
        len(pairs) - 1,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(pairs),
    )


def recompress(
    data: Buffer,
    compression: Compression,
    level: int | None = None,
    *,
    pos: int = 0,
    size_bytes_max: int = INFLATED_SIZE_BYTES_MAX,
) -> bytearray:
    """Return the batch of magic 2 at `pos` with another codec or level; the rest of its header
    stays.
    """
    header = read_header(data, pos)
    if header.magic != MAGIC:
        raise CorruptBatch(f"a message of magic {header.magic} has no codec of its own to change")
    inner = inner_bytes(data, pos, header, size_bytes_max)
    attributes = header.attributes & ~CODEC_MASK | compression
    payload = inner if compression == Compression.NONE else compress(compression, inner, level)
    changed = header._replace(attributes=attributes)
    return _sealed(payload, changed.base_offset, *changed[2:])


def _sealed(payload: Buffer, base_offset: int, *fields: int) -> bytearray:
    """Return the batch of a header and its payload.  `fields` are the header's fields after the
    length.
    """
    epoch, magic, _, *covered = fields
    rest = _COVERED.pack(*covered)
    crc = crc32c.crc32c(payload, crc32c.crc32c(rest))
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    out = bytearray(_UNCOVERED.pack(base_offset, length, epoch, magic, crc) + rest)
    out += payload
    return out


def seal(batch: bytearray, pos: int = 0) -> None:
    """Write the CRC of the batch of magic 2 from `pos` to the end of `batch`."""
    with memoryview(batch) as view:
        crc = crc32c.crc32c(view[pos + CRC_END :])
    CRC.pack_into(batch, pos + CRC_POS, crc)


def _encode(batch: list[Record], deltas: Iterable[int], base_timestamp: int) -> bytearray:
    """Return the uncompressed records, each with its size before it."""
    out = bytearray()
    short = VARINTS
    shorts = len(short)
    for record, offset_delta in zip(batch, deltas, strict=True):
        delta = record.timestamp - base_timestamp
        body = b"\0" + (short[delta] if 0 <= delta < shorts else varint(delta))
        body += short[offset_delta] if offset_delta < shorts else varint(offset_delta)
        body += _sized(record.key)
        body += _sized(record.value)
        body += _encode_headers(record.headers) if record.headers else b"\0"
        size = len(body)
        out += short[size] if size < shorts else varint(size)
        out += body
    return out


def _sized(data: Buffer | None) -> bytes:
    """Return the bytes with their size before them, a varint; -1 (encoded as 1) for null."""
    if data is None:
        return b"\1"
    size = len(data)
    return (VARINTS[size] if size < len(VARINTS) else varint(size)) + bytes(data)


def _encode_headers(headers: list[tuple[str, bytes | None]]) -> bytes:
    """Return the headers of a record: their count, then each key and value."""
    out = bytearray(varint(len(headers)))
    for key, value in headers:
        out += _sized(key.encode("utf-8", "surrogateescape"))
        out += _sized(value)
    return bytes(out)
