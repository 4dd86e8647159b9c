"""The checks of a leader before it appends a batch, and the changes that it makes to a batch.

Apache Kafka decodes every record of every batch (LogValidator).  kwire always checks the header and
the CRC, and reads the records only if the result depends on them:

    compacted topic                     each record needs a key
    timestamps of the header outside    the error names each record that is out of bounds; the
    the topic's bounds                  header's timestamps may be wrong, so the records decide
    largest timestamp below the first   the client left it to the broker (Sarama does): compute it
    timestamp type set by the client    Kafka refuses or rewrites it, by the records' timestamps
    record count does not fit           the sizes of up to 8 uncompressed records do not fill the
                                        batch, or so many records cannot be in so few bytes
    compression.type is another codec   the records are compressed again
    max.decompressed.message.bytes set  each record of a compressed batch must not be larger

The CRC proves that the client sent exactly these bytes.  Records that contradict their own header
harm the consumers of the topic, not the broker: offsets, sizes, sequence numbers and epochs come
from the header, whose fields are checked against each other.  In return, an append costs the same
for any number of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs import crc32c
from kwire.codecs.batch_layout import (
    ATTRIBUTES,
    ATTRIBUTES_POS,
    CODEC_MASK,
    CODEC_MAX,
    CRC,
    CRC_END,
    CRC_POS,
    HEADER_SIZE,
    LEGACY_LENGTHS_MIN,
    LENGTH,
    LENGTH_POS,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POS,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_POS,
)
from kwire.codecs.batches import (
    BatchHeader,
    Compression,
    CorruptBatch,
    Record,
    TimestampType,
    build,
    check_crc,
    check_sizes,
    inner_bytes,
    is_plausible,
    read_header,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.origin import Origin

if TYPE_CHECKING:
    from kwire.log.config import LogConfig

NO_TIMESTAMP = -1

WITHOUT_KEY = "Compacted topic cannot accept message without key"
"""How the message of each record begins that is refused for its missing key."""

_DEFINED_ATTRIBUTES = 0x7F  # a broker that rewrites the attributes clears undefined bits

_ANSWERED_BARE = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors for which Kafka's response has -1 as log start offset (ReplicaManager)."""


class Validated(NamedTuple):
    """A valid batch, which still needs its base offset and leader epoch."""

    data: memoryview
    header: BatchHeader


def validate(
    batches: bytearray | memoryview,
    config: LogConfig,
    origin: Origin,
    now_ms: int,
    *,
    name: str,
    log_start_offset: int,
) -> Validated:
    """Check one batch of a client, or of a coordinator of this broker, for partition `name`.

    Changes the buffer if necessary, or returns another one.  Raises LogError with Kafka's error
    code; it has the log start offset where Kafka's response has it.
    """
    view = single_batch(memoryview(batches))
    header = read_header(view)
    try:
        if origin is Origin.CLIENT and header.base_offset != 0:
            raise LogError(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset}, not 0")
        if header.size_bytes > config.max_message_bytes:
            raise _too_large(header.size_bytes, config)
        _check_crc(view, header)
        if origin is Origin.CLIENT:
            _check_claims(header)
        if config.record_bytes_max is not None and header.attributes & CODEC_MASK:
            inner = inner_bytes(view, 0, header)
            check_sizes(inner, header.records_count, config.record_bytes_max)
        target = _target_compression(header, config)
        if target is None:
            validated = _in_place(view, header, config, origin, now_ms, name)
        else:
            validated = _recompress(view, header, target, config, now_ms, name)
        if len(validated.data) > config.segment_bytes:
            raise LogError(ErrorCode.RECORD_LIST_TOO_LARGE, "the batch does not fit in a segment")
    except CorruptBatch as error:
        # The CRC is right, so a record that cannot be read was invalid when the client sent it.
        raise LogError(
            ErrorCode.INVALID_RECORD, str(error), log_start_offset=log_start_offset
        ) from error
    except LogError as error:
        if error.error not in _ANSWERED_BARE:
            error.log_start_offset = log_start_offset
        raise
    return validated


def _too_large(size_bytes: int, config: LogConfig) -> LogError:
    return LogError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {size_bytes} bytes; max.message.bytes is {config.max_message_bytes}",
    )


def _check_crc(view: memoryview, header: BatchHeader) -> None:
    """Raise LogError CORRUPT_MESSAGE if the CRC of the batch is wrong."""
    try:
        check_crc(view, 0, header)
    except CorruptBatch as error:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def single_batch(view: memoryview) -> memoryview:
    """Return the only batch in `view`.

    As in Kafka, a second batch is refused, an incomplete one ignored.

    Raises LogError.
    """
    size = whole_batch_size(view)
    if size is None:
        raise LogError(ErrorCode.INVALID_RECORD, "there is no batch")
    if view[MAGIC_POS] != MAGIC:
        raise LogError(ErrorCode.INVALID_RECORD, f"a batch of magic {view[MAGIC_POS]}")
    if size < HEADER_SIZE:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes has no whole header")
    if len(view) > size and _begins_another(view[size:]):
        raise LogError(ErrorCode.INVALID_RECORD, "there is more than one batch")
    return view[:size]


def _begins_another(rest: memoryview) -> bool:
    """Whether a complete batch follows.  As in Kafka, its error has no message for the client."""
    try:
        return whole_batch_size(rest) is not None
    except LogError as error:
        raise LogError(error.error, "what follows the batch is none") from error


def whole_batch_size(view: memoryview) -> int | None:
    """Return the size of the batch that `view` begins with, None if the batch is incomplete.

    Raises LogError CORRUPT_MESSAGE, with a message for the client, for an invalid length or magic.
    """
    if len(view) < LOG_OVERHEAD:
        return None
    length: int = LENGTH.unpack_from(view, LENGTH_POS)[0]
    if length < LEGACY_LENGTHS_MIN[0]:
        raise _corrupt(
            f"Record size {length} is less than the minimum record overhead "
            f"({LEGACY_LENGTHS_MIN[0]})"
        )
    if len(view) <= MAGIC_POS:
        return None
    if view[MAGIC_POS] > MAGIC:
        magic = int.from_bytes(view[MAGIC_POS : MAGIC_POS + 1], signed=True)
        raise _corrupt(f"Invalid magic found in record: {magic}")
    return None if length + LOG_OVERHEAD > len(view) else length + LOG_OVERHEAD


def _corrupt(message: str) -> LogError:
    return LogError(ErrorCode.CORRUPT_MESSAGE, message=message)


def _check_claims(header: BatchHeader) -> None:
    """Check that the header's fields fit together: offsets and producer state depend on them."""
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
    if header.attributes & CODEC_MASK > CODEC_MAX:
        # Kafka does not foresee this one: its exception has no code of its own.
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"codec {header.attributes & CODEC_MASK}")


def _target_compression(header: BatchHeader, config: LogConfig) -> Compression | None:
    """Return the codec to compress the batch with again; None if the batch stays as it is.

    Control records stay uncompressed, as their readers expect.
    """
    target = config.target_compression
    if target is None or target == header.compression or header.is_control:
        return None
    return target


def _in_place(
    view: memoryview,
    header: BatchHeader,
    config: LogConfig,
    origin: Origin,
    now_ms: int,
    name: str,
) -> Validated:
    """Check a batch that keeps its records, and read them if necessary."""
    client_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_timestamp = header.max_timestamp
    # This broker built a coordinator's batch: its records are right.
    if origin is Origin.CLIENT and _must_read(view, header, config, now_ms):
        read = list(records(view))
        _check_records(read, header, config, now_ms, name)
        max_timestamp = max(NO_TIMESTAMP, max(record.timestamp for record in read))
    if config.log_append_time:
        return _stamp(view, header, now_ms, LOG_APPEND_TIME_FLAG)
    if client_stamped or max_timestamp != header.max_timestamp:
        return _stamp(view, header, max_timestamp, 0)
    return Validated(view, header)


def _must_read(view: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Return whether the result depends on the records; see the table at the head of this
    module.
    """
    if config.compact or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return True
    if not is_plausible(view, header):
        return True
    if config.log_append_time:
        return False
    first, largest = header.base_timestamp, header.max_timestamp
    return (
        largest < first
        or (first < 0 and not first == largest == NO_TIMESTAMP)
        or (header.records_count == 1 and largest != first)
        or largest > now_ms + config.message_timestamp_after_max_ms
        or first < now_ms - config.message_timestamp_before_max_ms
    )


def _check_records(
    read: list[Record], header: BatchHeader, config: LogConfig, now_ms: int, name: str
) -> None:
    """Check keys and timestamps.  Raises one LogError that names all invalid records (KIP-467)."""
    errors: list[tuple[int, str]] = []
    untimely = False
    for number, record in enumerate(read):
        if config.compact and record.key is None:
            why = f"{WITHOUT_KEY} in topic partition {name}"
            errors.append((number, why))
        elif (late := _untimely(record, header, config, now_ms)) is not None:
            untimely = True
            errors.append((number, late))
    if not errors:
        return
    if untimely:
        message = "One or more records have been rejected due to invalid timestamp"
        raise LogError(ErrorCode.INVALID_TIMESTAMP, message=message, record_errors=errors)
    shown = ", ".join(
        f"RecordError(batchIndex={number}, message='{why}')" for number, why in errors[:3]
    )
    message = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    raise LogError(ErrorCode.INVALID_RECORD, message=message, record_errors=errors)


def _untimely(record: Record, header: BatchHeader, config: LogConfig, now_ms: int) -> str | None:
    """Return the error message for a record's timestamp, None if it is valid.

    On a CreateTime topic Kafka accepts (and corrects) the timestamp type LogAppendTime if the
    timestamp is in bounds.  It refuses the type without a timestamp, and on a LogAppendTime topic.
    """
    timestamp = record.timestamp
    if not config.log_append_time and timestamp != NO_TIMESTAMP:
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        return None if earliest <= timestamp <= latest else _out_of_range(record, earliest, latest)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return (
            f"Invalid timestamp type in message {_described(record)}. "
            "Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _described(record: Record) -> str:
    """Return a record as Apache Kafka's DefaultRecord prints itself."""
    key, value = (0 if data is None else len(data) for data in (record.key, record.value))
    return (
        f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, "
        f"key={key} bytes, value={value} bytes)"
    )


def _out_of_range(record: Record, earliest: int, latest: int) -> str:
    return (
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _stamp(
    view: memoryview, header: BatchHeader, max_timestamp: int, timestamp_flag: int
) -> Validated:
    """Set the largest timestamp, the timestamp type, and the CRC that covers both."""
    attributes = header.attributes & _DEFINED_ATTRIBUTES & ~LOG_APPEND_TIME_FLAG | timestamp_flag
    ATTRIBUTES.pack_into(view, ATTRIBUTES_POS, attributes)
    MAX_TIMESTAMP.pack_into(view, MAX_TIMESTAMP_POS, max_timestamp)
    CRC.pack_into(view, CRC_POS, crc32c.crc32c(view[CRC_END:]))
    return Validated(view, read_header(view))


def _recompress(
    view: memoryview,
    header: BatchHeader,
    target: Compression,
    config: LogConfig,
    now_ms: int,
    name: str,
) -> Validated:
    """Return a batch of the same records in the topic's codec."""
    read = list(records(view))
    _check_records(read, header, config, now_ms, name)
    data = build(
        read,
        compression=target,
        level=config.compression_level(target),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    if len(data) > config.max_message_bytes:
        raise _too_large(len(data), config)
    built = memoryview(data)
    if config.log_append_time:
        return _stamp(built, read_header(built), now_ms, LOG_APPEND_TIME_FLAG)
    return Validated(built, read_header(built))
