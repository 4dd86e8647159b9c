"""What a leader checks before it appends a batch, and how it rewrites one when it has to.

Apache Kafka decodes every record of every batch (LogValidator).  Here the header and the CRC are
checked always, and the records only where the answer depends on them:

    compacted topic                     each record needs a key
    timestamps of the header outside    each record that is out of bounds is named; the header's
    the topic's bounds                  largest may be a mere claim, so the records decide
    largest timestamp below the first   the client left it to the broker (Sarama does): compute it
    timestamp type set by the client    Kafka refuses or rewrites it, by the records' timestamps
    compression.type is another codec   the records are compressed anew

This leaves unread what the CRC already vouches for: that a client sent exactly these bytes.  A
client that makes a batch whose records contradict its own header hurts those who read its topic,
not the broker: offsets, sizes, sequence numbers and epochs are all taken from the header, whose
claims are checked against one another.  In return a batch costs the same whatever it holds.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import crc32c

from kwire.codecs.batches import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Compression,
    CorruptBatch,
    Record,
    TimestampType,
    build,
    check_crc,
    read_header,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.origin import Origin

if TYPE_CHECKING:
    from kwire.log.config import LogConfig

MAGIC = 2
NO_TIMESTAMP = -1

_LEGACY_LENGTH_MIN = 14
_LENGTH = Struct(">i")
_LENGTH_POS = 8
_MAGIC_POS = 16
_CRC = Struct(">I")
_CRC_POS = 17
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_POS = 21
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POS = 35
_LOG_APPEND_TIME = 0x08


class Validated(NamedTuple):
    """A batch that may be written once its base offset and leader epoch are patched in."""

    data: memoryview
    header: BatchHeader


def validate(
    batches: bytearray | memoryview,
    config: LogConfig,
    origin: Origin,
    now_ms: int,
    log_start_offset: int,
) -> Validated:
    """Check what a client (or a coordinator of this broker) wants appended.

    The buffer may be changed.  LogError with Kafka's code if it is refused.
    """
    try:
        view, header = _single_batch(memoryview(batches), origin)
        if header.size_bytes > config.max_message_bytes:
            raise _too_large(header.size_bytes, config)
        check_crc(view, 0, header)
    except CorruptBatch as error:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    try:
        if origin is Origin.CLIENT:
            _check_claims(header)
        target = _target_compression(header, config)
        if target is not None:
            validated = _recompress(view, header, target, config, now_ms)
            if len(validated.data) > config.max_message_bytes:
                raise _too_large(len(validated.data), config)
        else:
            validated = _in_place(view, header, config, origin, now_ms)
    except CorruptBatch as error:
        # What a record iterator finds wrong is an invalid record, as the CRC did hold.
        raise LogError(
            ErrorCode.INVALID_RECORD, str(error), log_start_offset=log_start_offset
        ) from error
    except LogError as error:
        if error.error is not ErrorCode.MESSAGE_TOO_LARGE:
            error.log_start_offset = log_start_offset
        raise
    if len(validated.data) > config.segment_bytes:
        raise LogError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(validated.data)} bytes does not fit in a segment",
        )
    return validated


def _too_large(size_bytes: int, config: LogConfig) -> LogError:
    return LogError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {size_bytes} bytes; max.message.bytes is {config.max_message_bytes}",
    )


def _single_batch(view: memoryview, origin: Origin) -> tuple[memoryview, BatchHeader]:
    """The one batch in `view`: Kafka takes no second, and overlooks a cut-off one behind it."""
    if _whole_batch_size(view) is None:
        raise LogError(ErrorCode.INVALID_RECORD, "there is no batch")
    if view[_MAGIC_POS] != MAGIC:
        raise LogError(ErrorCode.INVALID_RECORD, f"a batch of magic {view[_MAGIC_POS]}")
    header = read_header(view)
    rest = view[header.size_bytes :]
    if rest and _whole_batch_size(rest) is not None:
        raise LogError(ErrorCode.INVALID_RECORD, "there is more than one batch")
    if origin is Origin.CLIENT and header.base_offset != 0:
        raise LogError(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset}, not 0")
    return view[: header.size_bytes], header


def _whole_batch_size(view: memoryview) -> int | None:
    """Size of the batch that `view` starts with, None if it is cut short.

    CorruptBatch for a length or a magic that cannot be (ByteBufferLogInputStream).
    """
    if len(view) < LOG_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(view, _LENGTH_POS)[0]
    if length < _LEGACY_LENGTH_MIN:
        raise CorruptBatch(f"a batch of length {length}")
    if len(view) <= _MAGIC_POS:
        return None
    if view[_MAGIC_POS] > MAGIC:
        raise CorruptBatch(f"unknown magic {view[_MAGIC_POS]}")
    return None if length + LOG_OVERHEAD > len(view) else length + LOG_OVERHEAD


def _check_claims(header: BatchHeader) -> None:
    """What the header says must fit together, as all bookkeeping goes by it."""
    count = header.records_count
    why = None
    if header.last_offset_delta < 0 or count != header.last_offset_delta + 1:
        why = f"{count} records, but a last offset delta of {header.last_offset_delta}"
    elif header.is_control:
        why = "clients may not write control records"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        why = f"producer id {header.producer_id} with sequence {header.base_sequence}"
    if why is not None:
        raise LogError(ErrorCode.INVALID_RECORD, why)


def _target_compression(header: BatchHeader, config: LogConfig) -> Compression | None:
    """The codec to compress anew with, None when the batch stays as it is.

    Control records are left alone: their readers expect them plain.
    """
    target = config.target_compression
    if target is None or target == header.compression or header.is_control:
        return None
    return target


def _in_place(
    view: memoryview, header: BatchHeader, config: LogConfig, origin: Origin, now_ms: int
) -> Validated:
    if header.compression is Compression.NONE or origin is Origin.CLIENT:
        pass  # reading the property has checked the codec's number
    create_time = not config.log_append_time
    client_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_timestamp = header.max_timestamp
    if config.compact or client_stamped or (create_time and _must_read(header, config, now_ms)):
        read = [] if origin is not Origin.CLIENT else list(records(view))
        _check_records(read, header, config, now_ms)
        if read:
            max_timestamp = max(record.timestamp for record in read)
    if not create_time:
        return _stamp(view, header, now_ms, _LOG_APPEND_TIME)
    if client_stamped or max_timestamp != header.max_timestamp:
        return _stamp(view, header, max_timestamp, 0)
    return Validated(view, header)


def _must_read(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header's timestamps leave a doubt that only the records can settle."""
    first, largest = header.base_timestamp, header.max_timestamp
    return (
        largest < first
        or (header.records_count == 1 and largest != first)
        or largest > now_ms + config.message_timestamp_after_max_ms
        or first < now_ms - config.message_timestamp_before_max_ms
    )


def _check_records(read: list[Record], header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Keys and timestamps; all bad records are named in one LogError (KIP-467)."""
    if len(read) > 0 and len(read) != header.records_count:
        raise CorruptBatch(f"{len(read)} records, the header says {header.records_count}")
    errors: list[tuple[int, str]] = []
    untimely = False
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    client_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    for number, record in enumerate(read):
        timestamp = record.timestamp
        if config.compact and record.key is None:
            errors.append((number, "Compacted topic cannot accept message without key."))
        elif not config.log_append_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                untimely = True
                errors.append((number, _out_of_range(record, earliest, latest)))
        elif client_stamped:
            untimely = True
            errors.append((number, "Producer should not set timestamp type to LogAppendTime."))
    if not errors:
        return
    if untimely:
        message = "One or more records have been rejected due to invalid timestamp"
        raise LogError(ErrorCode.INVALID_TIMESTAMP, message=message, record_errors=errors)
    message = f"One or more records have been rejected due to {len(errors)} record errors"
    raise LogError(ErrorCode.INVALID_RECORD, message=message, record_errors=errors)


def _out_of_range(record: Record, earliest: int, latest: int) -> str:
    return (
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _stamp(
    view: memoryview, header: BatchHeader, max_timestamp: int, timestamp_flag: int
) -> Validated:
    """Set the largest timestamp and whose it is, and the CRC that covers both."""
    attributes = header.attributes & ~_LOG_APPEND_TIME | timestamp_flag
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POS, attributes)
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POS, max_timestamp)
    crc = crc32c.crc32c(view[_ATTRIBUTES_POS:])
    _CRC.pack_into(view, _CRC_POS, crc)
    return Validated(
        view, header._replace(crc=crc, attributes=attributes, max_timestamp=max_timestamp)
    )


def _recompress(
    view: memoryview, header: BatchHeader, target: Compression, config: LogConfig, now_ms: int
) -> Validated:
    """A batch of the same records in the topic's own codec."""
    read = list(records(view))
    _check_records(read, header, config, now_ms)
    data = build(
        read,
        compression=target,
        level=config.compression_level(target),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    assert len(data) >= HEADER_SIZE
    built = memoryview(data)
    if config.log_append_time:
        return _stamp(built, read_header(built), now_ms, _LOG_APPEND_TIME)
    return Validated(built, read_header(built))
