"""Rebuilds batches of magic 2 without some records: offsets, producer and codec stay.

Records are copied as they are.  Their timestamps are relative to the batch's base timestamp, which
therefore stays, unless it becomes the delete horizon (KIP-534): then each record gets a new delta.
Kafka computes the base timestamp again each time; readers see the same timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Compression,
    Record,
    TimestampType,
    build,
    seal,
)
from kwire.codecs.compression import compress
from kwire.codecs.varint import varint
from kwire.log.compaction.key_scan import ScannedRecord

_EMPTY_KEEPS = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
_NO_TIMESTAMP = -1


def emptied(header: BatchHeader) -> bytearray:
    """Return a batch without records: the offsets and the producer's sequence numbers are kept."""
    return _assemble(
        header._replace(
            attributes=header.attributes & _EMPTY_KEEPS,
            base_timestamp=_NO_TIMESTAMP,
            records_count=0,
        ),
        b"",
    )


def reduced(header: BatchHeader, inner: bytes, kept: Iterable[ScannedRecord]) -> bytearray:
    """The batch with only these of its records; `inner` has their bytes."""
    kept = list(kept)
    header = header._replace(max_timestamp=_max_timestamp(header, kept), records_count=len(kept))
    return _assemble(header, b"".join([inner[entry.start : entry.end] for entry in kept]))


def with_horizon(
    header: BatchHeader, inner: bytes, kept: Iterable[ScannedRecord], horizon_ms: int
) -> bytearray:
    """Like `reduced`, with a delete horizon: tombstones or marker may go from `horizon_ms` on."""
    kept = list(kept)
    out = bytearray()
    for entry in kept:
        delta = varint(_timestamp(header, entry) - horizon_ms)
        out += varint(1 + len(delta) + entry.end - entry.rest)
        out += b"\0"
        out += delta
        out += inner[entry.rest : entry.end]
    header = header._replace(
        attributes=header.attributes | DELETE_HORIZON_FLAG,
        base_timestamp=horizon_ms,
        max_timestamp=_max_timestamp(header, kept),
        records_count=len(kept),
    )
    return _assemble(header, bytes(out))


def modernized(header: BatchHeader, kept: list[Record], horizon_ms: int | None) -> bytearray:
    """Return the kept records (at least one) of a message of magic 0 or 1, as a batch of magic
    2.
    """
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build(
        kept,
        base_offset=kept[0].offset,
        keep_offsets=True,
        compression=header.compression,
        timestamp_type=header.timestamp_type,
        max_timestamp=header.max_timestamp if stamped else None,
        delete_horizon_ms=horizon_ms,
    )


def _timestamp(header: BatchHeader, entry: ScannedRecord) -> int:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return header.max_timestamp
    return header.base_timestamp + entry.timestamp_delta


def _max_timestamp(header: BatchHeader, kept: list[ScannedRecord]) -> int:
    return max(_timestamp(header, entry) for entry in kept)


def _assemble(header: BatchHeader, inner: bytes) -> bytearray:
    """Return the whole batch: the header with the new length and CRC, then `inner` compressed.

    `inner` holds the uncompressed records. The codec is the one in the attributes of `header`.
    """
    codec = Compression(header.attributes & CODEC_MASK)
    payload = inner if codec is Compression.NONE else compress(codec, inner)
    out = bytearray(HEADER_SIZE)
    HEADER.pack_into(out, 0, *header._replace(length=HEADER_SIZE - LOG_OVERHEAD + len(payload)))
    out += payload
    seal(out)
    return out
